//! How sites are put together: by stack, line, function, module, crate, hunk, type or thread.

use regex::Regex;

use crate::why::class::Class;
use crate::why::frame::{Frame, Place};
use crate::why::function_path::{normalised, without_closures};
use crate::why::hunks::{Changes, Side};
use crate::why::own_crates::OwnCrates;
use crate::why::stacks::shown;

/// What sites have in common in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupBy {
    /// The whole call stack
    Site,
    /// The line of the innermost frame of the user's code
    #[default]
    Line,
    /// The function
    Function,
    /// The module
    Module,
    /// The crate
    Crate,
    /// The hunk of the diff
    Hunk,
    /// The type that allocates, such as `Vec<Token>`
    Type,
    /// As line, and who holds the memory: runs the test once more
    Owner,
    /// The thread that allocates, and which one frees
    Thread,
}

/// How to group sites, and which ones.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    /// What sites have in common in a group.
    pub by: GroupBy,
    /// Only stacks with a function or `file:line` that matches. The others are one group.
    pub focus: Option<Regex>,
}

impl GroupBy {
    /// Returns its name on the command line and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Line => "line",
            Self::Function => "function",
            Self::Module => "module",
            Self::Crate => "crate",
            Self::Hunk => "hunk",
            Self::Type => "type",
            Self::Owner => "owner",
            Self::Thread => "thread",
        }
    }

    /// Whether it needs builds whose names have types.
    pub fn needs_typed_names(self) -> bool {
        matches!(self, Self::Type | Self::Owner)
    }

    /// Returns a text that all sites of a group have, unless it is a type or a thread. `frame` names the site; `index` is
    /// the number of its stack.
    pub(super) fn key(
        self,
        side: Side,
        frame: &Frame,
        class: Option<&Class>,
        changes: &Changes,
        own_crates: &OwnCrates,
        index: usize,
    ) -> String {
        match self {
            Self::Site | Self::Type => index.to_string(),
            // Callers in two hunks are two causes, also if both call one line.
            Self::Line | Self::Owner => format!("{} {}", line(side, frame, changes), hunk(class)),
            Self::Thread => line(side, frame, changes),
            Self::Function => function(frame),
            Self::Module => own_crates.module(frame),
            Self::Crate => own_crates.crate_name(frame),
            Self::Hunk => hunk(class),
        }
    }

    /// Returns the name of the group of a frame, and its place.
    pub(super) fn title(
        self,
        frame: &Frame,
        class: Option<&Class>,
        own_crates: &OwnCrates,
    ) -> (String, Option<String>) {
        match self {
            Self::Site | Self::Line | Self::Type | Self::Owner | Self::Thread => {
                (frame.name(), frame.location())
            }
            Self::Function => {
                let name = frame.name();
                let file = frame.place.as_ref().map(Place::to_string);
                (without_closures(&name).to_owned(), file)
            }
            Self::Module => (own_crates.module(frame), None),
            Self::Crate => (own_crates.crate_name(frame), None),
            Self::Hunk => (hunk(class), None),
        }
    }
}

impl Grouping {
    /// Returns the grouping by which causes are found, if it is not this one.
    pub(super) fn of_causes(&self) -> Option<Self> {
        let is_by_line = matches!(self.by, GroupBy::Line | GroupBy::Owner);
        (!is_by_line).then(|| Self { by: GroupBy::Line, focus: self.focus.clone() })
    }

    /// Returns the index of the frame that names a site: the innermost that the focus matches, or
    /// without a focus the one of [`shown`].
    pub(super) fn naming(&self, stack: &[&Frame]) -> Option<usize> {
        match &self.focus {
            Some(focus) => stack.iter().position(|frame| matches(focus, frame)).or_else(|| shown(stack)),
            None => shown(stack),
        }
    }

    /// Whether a stack is in focus.
    pub(super) fn contains(&self, stack: &[&Frame]) -> bool {
        let Some(focus) = &self.focus else { return true };
        stack.iter().any(|frame| matches(focus, frame))
    }
}

fn matches(focus: &Regex, frame: &Frame) -> bool {
    focus.is_match(&frame.name()) || frame.location().is_some_and(|at| focus.is_match(&at))
}

fn function(frame: &Frame) -> String {
    let key = frame.function.as_deref().map_or_else(|| frame.key(), normalised);
    without_closures(&key).to_owned()
}

/// Lines of the user's code move with the diff. A line that the diff replaced is about where it was,
/// so its function must be the same, too. Other lines move with versions, so only the function
/// counts.
pub(super) fn line(side: Side, frame: &Frame, changes: &Changes) -> String {
    let replaced = |path: &str, line: u32| format!("{path}:{line} {}", function(frame));
    match (&frame.place, frame.line) {
        (Some(Place::Checkout(path)), Some(line)) if side == Side::Baseline => {
            match changes.moved(path, line) {
                Some(moved) if moved.is_same => format!("{}:{}", moved.path, moved.line),
                Some(moved) => replaced(&moved.path, moved.line),
                None => replaced(path, line),
            }
        }
        (Some(Place::Checkout(path)), Some(line)) if changes.is_old_line(path, line) => {
            format!("{path}:{line}")
        }
        (Some(Place::Checkout(path)), Some(line)) => replaced(path, line),
        (Some(place), _) => format!("{} {}", frame.key(), place.key()),
        (None, _) => frame.key(),
    }
}

fn hunk(class: Option<&Class>) -> String {
    let Some(class) = class else { return "not known".to_owned() };
    match (class.hunk(), class.dependency()) {
        (Some(hunk), _) => format!("{} {}", hunk.path, hunk.hunk),
        (None, Some(changed)) => format!("dependency {}", changed.name),
        (None, None) => "outside of the diff".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn causes_are_found_by_line_whatever_is_shown() {
        let focus = Regex::new("load").unwrap();
        for by in GroupBy::value_variants() {
            let shown = Grouping { by: *by, focus: Some(focus.clone()) };
            let of_causes = shown.of_causes().unwrap_or(shown);
            // Owners have the groups of lines, too.
            assert!(matches!(of_causes.by, GroupBy::Line | GroupBy::Owner), "{by:?}");
            assert!(of_causes.focus.is_some(), "{by:?}");
        }
    }
}
