//! The flags about call sites.

use std::time::Duration;

use clap::Args;
use regex::Regex;

use memprof_judge::why::chosen::Why;
use memprof_judge::why::difference::CheckpointName;
use memprof_judge::why::explanations::Inquiry;
use memprof_judge::why::grouping::{GroupBy, Grouping};
use memprof_plan::config::flag::Section;
use memprof_plan::quantity;
use memprof_run::attribution::Attribution;
use memprof_run::owners::OwnersAt;

/// How long this may take without a flag.
const TIME: Duration = Duration::from_mins(5);
/// Tests of a group that changed alike, without a flag. They have one cause, unless two causes have the same bytes.
const MOST_ALIKE: usize = 16;
/// Frames of each site without a flag.
const FRAMES: usize = 1;

/// Which call sites to show, and how.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = Section::CallSites.heading())]
pub struct WhyArguments {
    /// Which tests run once more with call stacks: never, proven, always (if nothing follows), or changed:
    /// those that changed or exceed a limit [default: changed, if a report shows causes]
    ///
    /// `proven` records those that changed, and then leaves parts of the diff out to measure what the
    /// worst cause costs, as `prove` does.
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        num_args = 0..=1,
        default_missing_value = "always",
        hide_possible_values = true
    )]
    pub why: Option<Why>,
    /// What call sites have in common in a line: site, line, function, module, crate, hunk, type,
    /// owner or thread [default: line]
    ///
    /// `owner` also shows who holds the memory, and runs each test once more for that. `type` and `owner` build
    /// with names that have types; `thread` shows who allocates and who frees (docs/why.md).
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    pub why_by: Option<GroupBy>,
    /// Show only call stacks with a function or a file and line that match; the innermost match
    /// names the site
    #[arg(long, value_name = "REGEX", value_parser = Regex::new)]
    pub focus: Option<Regex>,
    /// Frames to show of each call stack [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub frames: Option<u16>,
    /// Show what is live at this checkpoint, in place of what changed: done, "parsed#2". Without --why, all tests
    /// run with call stacks
    #[arg(long, value_name = "LABEL", value_parser = checkpoint)]
    pub why_at: Option<CheckpointName>,
    /// With --why-at: show what became live since this checkpoint
    #[arg(long, value_name = "LABEL", value_parser = checkpoint, requires = "why_at")]
    pub why_from: Option<CheckpointName>,
    /// Record one allocation of so many bytes on average, for programs that allocate much: 512KiB.
    /// The figures of call sites are then estimates
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    pub why_sample: Option<u64>,
    /// Run at most this many tests with call stacks [default: 16 of each group that changed alike, and as many as
    /// --why-time allows]
    #[arg(long, value_name = "N")]
    pub why_tests: Option<usize>,
    /// Begin no further batch of tests with call stacks after this time: 30s, 10m [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub why_time: Option<Duration>,
}

/// Reads a checkpoint's label, with `#2` for its second occurrence.
// Clap needs a `Result`.
#[expect(clippy::unnecessary_wraps, reason = "a value parser may fail")]
fn checkpoint(text: &str) -> Result<CheckpointName, String> {
    let numbered = text.rsplit_once('#').and_then(|(label, number)| Some((label, number.parse().ok()?)));
    let (label, occurrence) = numbered.unwrap_or((text, 1));
    Ok(CheckpointName { label: label.to_owned(), occurrence })
}

impl PartialEq for WhyArguments {
    fn eq(&self, other: &Self) -> bool {
        let focus = |one: &Self| one.focus.as_ref().map(Regex::to_string);
        (self.why, self.why_by, self.frames, self.why_tests, self.why_time)
            == (other.why, other.why_by, other.frames, other.why_tests, other.why_time)
            && (&self.why_at, &self.why_from, self.why_sample)
                == (&other.why_at, &other.why_from, other.why_sample)
            && focus(self) == focus(other)
    }
}

impl Eq for WhyArguments {}

impl WhyArguments {
    /// Returns which tests run with call stacks. `is_shown` says whether a report shows causes.
    pub fn which(&self, is_shown: bool) -> Why {
        // What is live at a checkpoint is asked about each test, whether it changed or not.
        let usual = match self.why_at {
            Some(_) => Why::Always,
            None if is_shown => Why::Changed,
            None => Why::Never,
        };
        self.why.unwrap_or(usual)
    }

    /// Whether a flag asks for call sites, or says which ones and how.
    pub fn is_about_sites(&self) -> bool {
        self.groups_sites() || self.why_at.is_some() || self.why.is_some_and(|why| why != Why::Never)
    }

    /// Whether a flag says how call sites are put together.
    pub fn groups_sites(&self) -> bool {
        self.why_by.is_some() || self.focus.is_some() || self.frames.is_some()
    }

    /// Whether types are shown.
    pub fn shows_types(&self) -> bool {
        self.why_by.is_some_and(GroupBy::needs_typed_names)
    }

    /// Returns what is asked about the recorded tests.
    pub fn inquiry(&self) -> Inquiry {
        Inquiry {
            grouping: Grouping { by: self.why_by.unwrap_or_default(), focus: self.focus.clone() },
            at: self.why_at.clone(),
            from: self.why_from.clone(),
        }
    }

    /// Returns how many frames of each site are shown.
    pub fn shown_frames(&self) -> usize {
        self.frames.map_or(FRAMES, usize::from)
    }

    /// Returns how tests are recorded. Without a flag, none is.
    pub fn attribution(&self) -> Attribution {
        Attribution {
            why: self.why.unwrap_or(Why::Never),
            tests: self.why_tests.unwrap_or(usize::MAX),
            most_alike: if self.why_tests.is_some() { usize::MAX } else { MOST_ALIKE },
            time: self.why_time.unwrap_or(TIME),
            sample: self.why_sample,
            threads: self.why_by == Some(GroupBy::Thread),
            owners: (self.why_by == Some(GroupBy::Owner)).then(|| match &self.why_at {
                Some(at) => OwnersAt::Checkpoint(at.clone()),
                None => OwnersAt::Changed,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_asked_about_each_test() {
        let at = |label: &str| WhyArguments { why_at: checkpoint(label).ok(), ..WhyArguments::default() };
        assert_eq!(at("done").which(true), Why::Always);
        assert_eq!(WhyArguments { why: Some(Why::Changed), ..at("done") }.which(true), Why::Changed);
        assert_eq!(WhyArguments::default().which(true), Why::Changed);
    }
}
