//! The flags of single sides: `SIDE:VALUE`. A side is a revision and what it is built with.

use clap::Args;

use memprof_plan::config::flag::Section;

/// What a side is built with in place of its own lock file. `--features`, `--no-default-features`,
/// `--toolchain`, `--profile`, `--env` and `--config` take a side, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = Section::Sides.heading())]
pub struct SideArguments {
    /// Build a side with another version of a dependency: new:serde@1.0.200 (repeatable)
    ///
    /// `old` is the baseline and `new` the candidate; the name of a ref works too. Without a side, it
    /// holds for all refs. Also from a folder, `new:serde=../serde`, or from git,
    /// `new:serde=https://github.com/serde-rs/serde@master`. If the lock file has several versions:
    /// `new:rand@0.8.5..0.8.4`
    #[arg(long, value_name = "[SIDE:]NAME@VERSION")]
    pub with: Vec<String>,
    /// Build a side with the lock file of a file or of a ref: new=main (repeatable)
    #[arg(long, value_name = "SIDE=FILE|REF")]
    pub lockfile: Vec<String>,
}

/// Splits `SIDE:VALUE`. A colon behind one of these characters belongs to the value.
pub fn split<'a>(text: &'a str, ends: &[char]) -> (Option<&'a str>, &'a str) {
    let end = text.find(ends).unwrap_or(text.len());
    match text[..end].split_once(':') {
        Some((side, _)) if !side.is_empty() => (Some(side.trim()), &text[side.len() + 1..]),
        _ => (None, text),
    }
}

/// Joins `--no-default-features new` to `--no-default-features=new`, unless `old` and `new` are refs
/// of this command line. The flag alone holds for all refs.
pub fn join_side(argv: &mut Vec<std::ffi::OsString>) {
    let is_side = |word: &str| ["old", "new"].contains(&word);
    let words: Vec<String> = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let flags: Vec<usize> = (1..end)
        .filter(|&place| words[place - 1] == "--no-default-features" && is_side(&words[place]))
        .collect();
    let is_ref = |(place, word): (usize, &String)| {
        !flags.contains(&place)
            && word.split(',').any(|one| is_side(one.split('=').next_back().unwrap_or_default()))
    };
    if words[..end].iter().enumerate().any(is_ref) {
        return;
    }
    for place in flags.into_iter().rev() {
        let side = argv.remove(place);
        argv[place - 1].push("=");
        argv[place - 1].push(side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_what_stands_before_the_colon() {
        let ends = ['=', '@'];
        assert_eq!(split("new:serde@1.0.200", &ends), (Some("new"), "serde@1.0.200"));
        assert_eq!(split("serde=https://x/y", &ends), (None, "serde=https://x/y"));
        assert_eq!(split("pr/7:arena", &[]), (Some("pr/7"), "arena"));
        assert_eq!(split("arena", &[]), (None, "arena"));
        assert_eq!(split("new:A=b:c", &ends), (Some("new"), "A=b:c"));
        assert_eq!(split("A=b:c", &ends), (None, "A=b:c"));
    }

    #[test]
    fn a_side_may_follow_no_default_features() {
        let joined = |line: &str| {
            let mut argv: Vec<_> = line.split(' ').map(std::ffi::OsString::from).collect();
            join_side(&mut argv);
            argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            joined("x main pr/7 --no-default-features new -k hf"),
            "x main pr/7 --no-default-features=new -k hf"
        );
        for unchanged in [
            "x --no-default-features old new",
            "x --refs old,new --no-default-features new",
            "x --no-default-features main .",
            "x main . --no-default-features",
        ] {
            assert_eq!(joined(unchanged), unchanged);
        }
    }
}
