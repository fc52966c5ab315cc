//! A search that continues must build as it did before: figures of two toolchains are not compared.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::results::kept_baseline;
use crate::support::user_error::UserError;

/// Checks the build of a commit that was built before, by its entries in `builds.json`.
///
/// # Errors
/// It differs in what is not of the commit, such as the toolchain, or it no longer builds.
pub fn expect(name: &str, before: &Value, now: &Value) -> Result<(), UserError> {
    if before["key"].is_null() {
        // It did not build before either, or was built by a version that noted less.
        return Ok(());
    }
    let differing = if now["key"].is_null() {
        vec![format!("{name} no longer builds")]
    } else {
        kept_baseline::of_builds(&texts(before), &texts(now))
    };
    if differing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "this search cannot continue, because its commits are built in another way now: {}",
        differing.join("; ")
    );
    Err(UserError::new(message).help(
        "undo the change, or start the search again without --resume: builds that still fit are reused",
    ))
}

fn texts(facts: &Value) -> BTreeMap<String, String> {
    let facts = facts.as_object().into_iter().flatten();
    facts.filter_map(|(fact, value)| Some((fact.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_toolchain_ends_a_search_and_other_sources_do_not() {
        let before = json!({"key": "a", "toolchain": "rustc 1.85.0", "sources": "1"});
        let refused = |now: Value| expect("v1", &before, &now).err().map(|error| error.message);
        assert_eq!(refused(json!({"key": "b", "toolchain": "rustc 1.85.0", "sources": "2"})), None);
        let toolchain = refused(json!({"key": "b", "toolchain": "rustc 1.90.0", "sources": "1"})).unwrap();
        assert!(toolchain.ends_with("the toolchain: rustc 1.85.0 / rustc 1.90.0"), "{toolchain}");
        let failed = refused(json!({"build_failed": "error"})).unwrap();
        assert!(failed.ends_with("v1 no longer builds"), "{failed}");
        assert!(expect("v1", &json!({"build_failed": "error"}), &before).is_ok());
    }
}
