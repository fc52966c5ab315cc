//! Line tables for profiles that have none, so that call sites have functions and lines, and layouts of
//! types if a run asks for types. They change neither the code nor a figure.

use toml_edit::{DocumentMut, Item};

use crate::job::Job;

/// Returns the variable that makes cargo add line tables, with its value; `None` if the profile has
/// some, or if the user set the variable.
pub(crate) fn variable(job: &Job<'_>) -> anyhow::Result<Option<(String, String)>> {
    let inputs = job.inputs;
    let options = job.options();
    let profile = options.profile.as_deref().unwrap_or("test");
    let path = inputs.plan.workspace.join("Cargo.toml");
    let commit = &inputs.plan.revisions[job.index].commit;
    let manifest = inputs.repository.show(commit, path.as_str())?.unwrap_or_default();
    let manifest = String::from_utf8_lossy(&manifest).parse().unwrap_or_default();
    let Some(lacking) = without_lines(&manifest, profile) else { return Ok(None) };
    let of = |profile: &str| format!("CARGO_PROFILE_{}_DEBUG", profile.to_uppercase().replace('-', "_"));
    let is_set = |variable: &String| {
        std::env::var_os(variable).is_some() || job.requested_environment().contains_key(variable)
    };
    if [of(profile), of(&lacking)].iter().any(is_set) {
        return Ok(None);
    }
    // The number is what every cargo knows; `limited` came with 1.71. Layouts of types need all.
    let level = if inputs.plan.request.typed_names { "2" } else { "1" };
    Ok(Some((of(&lacking), level.to_owned())))
}

/// Returns the profile whose settings say that there is no debug information: this one, or one that it inherits.
/// `None` if there is some.
fn without_lines(manifest: &DocumentMut, profile: &str) -> Option<String> {
    let mut name = profile.to_owned();
    // A profile cannot inherit from itself, but a broken manifest may say so.
    for _ in 0..16 {
        let own = manifest.get("profile").and_then(|profiles| profiles.get(&name));
        if let Some(debug) = own.and_then(|own| own.get("debug")) {
            let is_none = debug.as_integer() == Some(0)
                || debug.as_bool() == Some(false)
                || debug.as_str() == Some("none");
            return is_none.then_some(name);
        }
        let inherited = own.and_then(|own| own.get("inherits")).and_then(Item::as_str);
        name = match (name.as_str(), inherited) {
            ("dev", _) => return None,
            ("test", _) => "dev".to_owned(),
            ("release", _) => return Some(profile.to_owned()),
            ("bench", _) => "release".to_owned(),
            // Cargo refuses a profile that inherits nothing.
            (_, inherited) => inherited?.to_owned(),
        };
    }
    None
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
        let lacking = |manifest: &DocumentMut, profile: &str| without_lines(manifest, profile);
        for profile in ["release", "bench", "small", "known"] {
            assert_eq!(lacking(&manifest, profile).as_deref(), Some(profile));
        }
        for profile in ["slow", "dev", "test", "round", "missing"] {
            assert_eq!(lacking(&manifest, profile), None, "{profile}");
        }
        let fast: DocumentMut = "[profile.dev]\ndebug = false\n".parse().unwrap();
        assert_eq!(
            ["test", "dev"].map(|profile| lacking(&fast, profile)),
            ["dev", "dev"].map(|it| Some(it.into()))
        );
        let with_lines: DocumentMut = "[profile.release]\ndebug = 'line-tables-only'\n".parse().unwrap();
        assert_eq!(lacking(&with_lines, "bench"), None);
    }
}
