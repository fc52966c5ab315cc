//! A test's parameters: which names and values they may have, and their combinations.

use std::collections::{BTreeMap, HashSet};

use indexmap::IndexMap;

use crate::cell_names::EntryName;
use crate::plan_size::MOST_CELLS;
use crate::request::{Request, TestRequest};
use memprof_gpu::visible_devices::VISIBLE;
use memprof_support::user_error::UserError;

/// Checks that every platform and shell accepts this name of a variable.
pub fn check_variable(name: &str) -> Result<(), String> {
    let fine = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if name.is_empty() || !name.chars().all(fine) || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!(
            "'{name}' cannot be the name of an environment variable: use letters, digits and `_`, and do not begin with a digit"
        ));
    }
    Ok(())
}

/// Words that have another meaning in a name template or a cell pattern.
const RESERVED: [&str; 4] = ["ref", "test", "package", "binary"];

/// Checks that a parameter may have this name: that of a variable, but no reserved word.
pub fn check_parameter(name: &str) -> Result<(), String> {
    check_variable(name)?;
    if RESERVED.contains(&name) {
        return Err(format!("a parameter cannot be named '{name}': the word is reserved"));
    }
    Ok(())
}

/// Refuses parameters that the environment sets too, that have no values, or that have too many.
pub(crate) fn check_parameters(
    request: &Request,
    entry: &TestRequest,
    entry_name: &EntryName<'_>,
) -> Result<(), UserError> {
    let everywhere = || {
        let refs = request.refs.iter().map(|one| &one.env);
        refs.chain([&request.env, &entry.env])
    };
    let chooses_devices = |env: &BTreeMap<String, String>| env.contains_key(VISIBLE);
    if entry.devices.is_some() && (everywhere().any(chooses_devices) || entry.params.contains_key(VISIBLE)) {
        return Err(UserError::new(format!("{entry_name}: `device` and {VISIBLE} both choose devices"))
            .help(format!("remove one of them: `device` sets {VISIBLE}")));
    }
    let mut count: usize = 1;
    for (name, values) in &entry.params {
        let complain = |message: String| UserError::new(format!("{entry_name}: {message}"));
        if everywhere().any(|env| env.contains_key(name)) {
            return Err(complain(format!("parameter '{name}' is also set under `env`"))
                .help("a parameter is an environment variable: rename one of them"));
        }
        if values.is_empty() {
            return Err(complain(format!("parameter '{name}' has no values")));
        }
        let mut known = HashSet::new();
        if let Some(value) = values.iter().find(|value| !known.insert(*value)) {
            return Err(complain(format!("parameter '{name}' has the value '{value}' twice")));
        }
        count = count.saturating_mul(values.len());
        if count > MOST_CELLS {
            return Err(complain(format!("its parameters have more than {MOST_CELLS} combinations")));
        }
    }
    Ok(())
}

/// Returns all combinations of the parameters' values, in the order written: the last parameter
/// changes fastest.
pub(crate) fn combinations(params: &IndexMap<String, Vec<String>>) -> Vec<Vec<(String, String)>> {
    let mut combinations = vec![Vec::new()];
    for (name, values) in params {
        combinations = combinations
            .into_iter()
            .flat_map(|combination: Vec<(String, String)>| {
                values.iter().map(move |value| {
                    let mut longer = combination.clone();
                    longer.push((name.clone(), value.clone()));
                    longer
                })
            })
            .collect();
    }
    combinations
}
