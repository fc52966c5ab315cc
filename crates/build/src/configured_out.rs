//! Recognizes targets that compile to nothing, because their root file begins with a `#![cfg(…)]`
//! that does not hold. Their executables have no tests and no shim.

use std::ffi::OsString;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use cargo_platform::{Cfg, CfgExpr};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Meta, Token};

use crate::inject::source_edit::{SourceText, forget_places};
use memprof_support::regular_file::followed;

/// Whether the crate of this call of the compiler is configured out. `argv` is the whole command.
///
/// # Errors
///
/// The root file cannot be read, or the compiler cannot be asked for its configuration.
pub(crate) fn is_configured_out(argv: &[OsString]) -> anyhow::Result<bool> {
    let root = argv.iter().map(Path::new).find(|word| word.extension().is_some_and(|end| end == "rs"));
    let Some(root) = root else { return Ok(false) };
    let conditions = conditions(&followed::text(root)?);
    if conditions.is_empty() {
        return Ok(false);
    }
    // With this argument, the compiler prints what holds for this call, and compiles nothing.
    let asked = std::process::Command::new(&argv[0]).args(&argv[1..]).args(["--print", "cfg"]).output();
    let printed = asked.with_context(|| format!("could not start {}", Path::new(&argv[0]).display()))?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    let cfgs: Vec<Cfg> = printed.lines().filter_map(|line| Cfg::from_str(line).ok()).collect();
    Ok(conditions.iter().any(|condition| !condition.matches(&cfgs)))
}

/// Returns the conditions on the whole file. One that cannot be parsed is left out.
fn conditions(text: &str) -> Vec<CfgExpr> {
    if !text.contains("#![") {
        return Vec::new();
    }
    let file = SourceText::new(text).parse();
    let attributes = file.map(|file| file.attrs).unwrap_or_default();
    let conditions = attributes.iter().flat_map(|attribute| conditions_of(&attribute.meta)).collect();
    forget_places();
    conditions
}

/// The conditions of `cfg(…)`, and of a `cfg_attr(…, cfg(…))`, which count only if its first one
/// holds.
fn conditions_of(attribute: &Meta) -> Vec<CfgExpr> {
    let Ok(list) = attribute.require_list() else { return Vec::new() };
    if list.path.is_ident("cfg") {
        return CfgExpr::from_str(&list.tokens.to_string()).into_iter().collect();
    }
    if !list.path.is_ident("cfg_attr") {
        return Vec::new();
    }
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let mut parts = parts.unwrap_or_default().into_iter();
    let first = parts.next().and_then(|first| CfgExpr::from_str(&first.to_token_stream().to_string()).ok());
    let Some(first) = first else { return Vec::new() };
    let unless = |condition| CfgExpr::Any(vec![CfgExpr::Not(Box::new(first.clone())), condition]);
    parts.flat_map(|part| conditions_of(&part)).map(unless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conditions_on_a_file_are_parsed() {
        let holds = |text: &str| {
            let cfgs = ["unix", "test", "feature=\"slow\""].map(|cfg| Cfg::from_str(cfg).unwrap());
            conditions(text).iter().all(|condition| condition.matches(&cfgs))
        };
        for text in ["", "#![cfg(unix)]", "#![cfg(all(unix, feature = \"slow\"))]", "#[cfg(any())] fn f() {}"]
        {
            assert!(holds(text), "{text}");
        }
        for text in ["#![cfg(any())]", "//! Doc.\n#![cfg(not(unix))]", "#![cfg(unix)]\n#![cfg(windows)]"] {
            assert!(!holds(text), "{text}");
        }
        assert!(holds("#![cfg_attr(windows, cfg(any()))]") && holds("#![cfg_attr(unix, allow(dead_code))]"));
        assert!(!holds("#![cfg_attr(not(feature = \"fast\"), cfg(any()))]"));
        assert!(!holds("#![cfg_attr(unix, allow(dead_code), cfg(windows))]"));
    }
}
