//! The order in which the candle adapter names variables.

use std::collections::HashMap;

#[allow(
    clippy::all,
    clippy::pedantic,
    reason = "the adapters' own, which compilers older than ours must take"
)]
#[path = "../../templates/common/by_name.rs"]
mod by_name;

#[test]
fn variables_are_named_in_the_order_of_their_names_however_many_there_are() {
    let expected: Vec<String> = (0..500).map(|layer| format!("layers.{layer}.weight")).collect();
    let map: HashMap<String, usize> = expected.iter().cloned().zip(0..).collect();
    let mut said = Vec::new();
    by_name::each(&map, |name, number| said.push((name.to_owned(), *number)));
    assert_eq!(said, expected.into_iter().zip(0..).collect::<Vec<_>>());
    let odd = ["", ".", "1", "01", "1.a", "a", "a.", "a.99999999999999999999", "b"];
    let mut said = Vec::new();
    by_name::each(&odd.iter().map(|name| ((*name).to_owned(), 0)).collect(), |name, _| {
        said.push(name.to_owned());
    });
    assert_eq!(said.len(), odd.len());
    by_name::each(&HashMap::<String, usize>::new(), |_, _| unreachable!());
}
