//! Random numbers that follow from the runner's seed.

use crate::laboratory::{Experiment, program, text};

/// The numbers that the program printed, by name.
fn numbers(seed: Option<&str>) -> Vec<(String, String)> {
    let experiment = Experiment::of(program("random", &[]));
    let experiment = match seed {
        Some(seed) => experiment.env("MEMPROF_RANDOM", seed),
        None => experiment,
    };
    let record = experiment.succeed();
    let [causes] = record.events("causes")[..] else { panic!("one line says what varies") };
    let expected = if seed.is_some() { "same" } else { "own" };
    assert_eq!(causes["random"], expected);
    assert_eq!(causes["hash_keys"], 1);
    assert_eq!(causes["random_numbers"], 8, "{causes}");
    let printed = text(&record.output.stdout);
    let pairs = printed.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, number)| (name.to_owned(), number.to_owned())).collect()
}

#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn every_way_to_a_random_number_leads_to_the_seed() {
    let seed = "00000000000000aa";
    let [mut first, mut second, mut other] = [seed, seed, "00000000000000ab"].map(|seed| numbers(Some(seed)));
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hash", "function", "name", "call", "entropy", "thread", "again", "child"]);
    let [of_first, of_second, of_other] = [&mut first, &mut second, &mut other].map(|all| all.pop().unwrap());
    assert!(of_first != of_second && of_first != of_other, "a child has its own");
    assert_eq!(first, second);
    assert!(first.iter().zip(&other).all(|(one, other)| one != other), "{first:?} {other:?}");
    let mut distinct: Vec<&String> = first.iter().map(|(_, number)| number).collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), first.len(), "no number comes twice: {first:?}");
}

#[test]
fn without_a_seed_each_process_has_its_own_numbers() {
    let (first, second) = (numbers(None), numbers(None));
    assert!(first.iter().zip(&second).all(|(one, other)| one != other), "{first:?} {second:?}");
}
