//! Line tables for profiles that have none, so that call sites have functions and lines, and layouts of
//! types if a run asks for types. They change neither the code nor a figure.

use toml_edit::{DocumentMut, Item};

use crate::job::Job;

/// Returns the variable that makes cargo add line tables, with its value; `None` if the profile has
/// some, or if the user decided about it.
pub(crate) fn variable(job: &Job<'_>) -> anyhow::Result<Option<(String, String)>> {
    let inputs = job.inputs;
    let options = job.options();
    let Some(profile) = options.profile.as_deref() else { return Ok(None) };
    let variable = format!("CARGO_PROFILE_{}_DEBUG", profile.to_uppercase().replace('-', "_"));
    if std::env::var_os(&variable).is_some() || job.requested_environment().contains_key(&variable) {
        return Ok(None);
    }
    let path = inputs.plan.workspace.join("Cargo.toml");
    let commit = &inputs.plan.revisions[job.index].commit;
    let manifest = inputs.repository.show(commit, path.as_str())?.unwrap_or_default();
    let manifest = String::from_utf8_lossy(&manifest).parse().unwrap_or_default();
    // The number is what every cargo knows; `limited` came with 1.71. Layouts of types need all.
    let level = if inputs.plan.request.typed_names { "2" } else { "1" };
    Ok(lacks_lines(&manifest, profile).then(|| (variable, level.to_owned())))
}

/// Whether a profile has no debug information, by its own settings and those that it inherits.
fn lacks_lines(manifest: &DocumentMut, profile: &str) -> bool {
    let mut name = profile.to_owned();
    // A profile cannot inherit from itself, but a broken manifest may say so.
    for _ in 0..16 {
        let own = manifest.get("profile").and_then(|profiles| profiles.get(&name));
        if own.and_then(|own| own.get("debug")).is_some() {
            return false;
        }
        let inherited = own.and_then(|own| own.get("inherits")).and_then(Item::as_str);
        name = match (name.as_str(), inherited) {
            ("dev" | "test", _) => return false,
            ("release", _) => return true,
            ("bench", _) => "release".to_owned(),
            (_, Some(inherited)) => inherited.to_owned(),
            // Cargo will refuse it.
            (_, None) => return false,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_without_debug_information_gets_lines() {
        let manifest: DocumentMut = "
[profile.small]
inherits = 'release'
[profile.known]
inherits = 'small'
debug = 0
[profile.slow]
inherits = 'dev'
[profile.round]
inherits = 'round'
"
        .parse()
        .unwrap();
        let lacking = ["release", "bench", "small"];
        let all = ["release", "bench", "small", "known", "slow", "dev", "test", "round", "missing"];
        for profile in all {
            assert_eq!(lacks_lines(&manifest, profile), lacking.contains(&profile), "{profile}");
        }
        let with_lines: DocumentMut = "[profile.release]\ndebug = 'line-tables-only'\n".parse().unwrap();
        assert!(!lacks_lines(&with_lines, "bench"));
    }
}
