//! What a change has to do with a site: its code changed, a caller's, a dependency, or nothing.

use crate::results::stack_log::Way;
use crate::why::frame::{Frame, FrameKind};
use crate::why::function_path::names;
use crate::why::hunks::{Changes, HunkAt, Replacement, Side};
use crate::why::stacks::{naming, shown};
use crate::why::versions::{ChangedDependency, Versions};

/// What the diff has to do with a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The site's own function is in the diff.
    Changed(Existence, HunkAt),
    /// A caller of the site is in the diff: the nearest one.
    CalledFrom(Caller, HunkAt),
    /// The memory is allocated in a dependency, or on its behalf, and its version differs.
    Dependency(ChangedDependency),
    /// The blocks end elsewhere on one of the sides.
    Ended(Box<Ended>),
    /// Both sides read the program's debug information, to name the lines of a backtrace.
    DebugInformation,
    /// None of these.
    Unchanged,
}

/// Where one side ends blocks that live on, on the other one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    /// The side that ends them.
    pub side: Side,
    /// How it does so.
    pub way: Way,
    /// Whether the other side ends as many there, but only after its peak.
    pub is_before_peak: bool,
    /// The function: the nearest one that is in the diff, or else the one that names the stack.
    pub function: String,
    /// The file and the line of its call.
    pub location: Option<String>,
    /// What the diff has to do with it.
    pub change: Option<ChangedEnd>,
}

/// Why a side ends blocks elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangedEnd {
    /// A function is in the diff.
    Code {
        /// The function, or the one that takes its place.
        function: String,
        /// On which sides it exists.
        existence: Existence,
        /// The place in the diff.
        hunk: HunkAt,
    },
    /// The blocks end in a dependency, or on its behalf, and its version differs.
    Dependency(ChangedDependency),
}

impl Class {
    /// Returns the place in the diff.
    pub fn hunk(&self) -> Option<&HunkAt> {
        match self {
            Self::Changed(_, hunk) | Self::CalledFrom(_, hunk) => Some(hunk),
            Self::Ended(ended) => match ended.change.as_ref()? {
                ChangedEnd::Code { hunk, .. } => Some(hunk),
                ChangedEnd::Dependency(_) => None,
            },
            Self::Dependency(_) | Self::DebugInformation | Self::Unchanged => None,
        }
    }

    /// Returns the dependency whose version differs.
    pub fn dependency(&self) -> Option<&ChangedDependency> {
        match self {
            Self::Dependency(changed) => Some(changed),
            Self::Ended(ended) => match ended.change.as_ref()? {
                ChangedEnd::Dependency(changed) => Some(changed),
                ChangedEnd::Code { .. } => None,
            },
            Self::Changed(..) | Self::CalledFrom(..) | Self::DebugInformation | Self::Unchanged => None,
        }
    }

    /// Returns its name in files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Changed(existence, _) => existence.as_str(),
            Self::CalledFrom(..) => "called_from_changed",
            Self::Dependency(_) => "dependency_changed",
            Self::Ended(_) => "ended_elsewhere",
            Self::DebugInformation => "debug_information",
            Self::Unchanged => "unchanged",
        }
    }

    /// Returns how much it says, from the least to the most.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Self::Unchanged => 0,
            Self::DebugInformation => 1,
            Self::Ended(ended) if ended.change.is_none() => 1,
            Self::Dependency(_) => 2,
            Self::CalledFrom(..) | Self::Ended(_) => 3,
            Self::Changed(..) => 4,
        }
    }
}

/// On which sides a changed function exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Existence {
    /// On both.
    Both,
    /// At the candidate alone.
    New,
    /// At the baseline alone.
    Deleted,
}

impl Existence {
    /// Returns its name in files and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Both => "changed",
            Self::New => "new",
            Self::Deleted => "deleted",
        }
    }
}

/// A function that leads to a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The path.
    pub function: String,
    /// The file and the line of its call.
    pub location: String,
}

/// The diff of two revisions: their sources, and their dependencies.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The changed lines; `None` if they are not known, so that nothing can be said about sites.
    pub changes: Option<Changes>,
    /// The versions of dependencies.
    pub versions: Versions,
}

/// What the diff has to do with one frame.
#[derive(Clone, Debug)]
pub(super) struct FrameFacts {
    /// The hunk of its function.
    hunk: Option<HunkAt>,
    /// The package, if that changed.
    dependency: Option<ChangedDependency>,
    /// The functions that types have in its place on the other side.
    replacements: Vec<Replacement>,
    /// Whether it is in the code that names the lines of a backtrace, and both sides have such frames.
    names_lines: bool,
    /// Whether it is not known what changed in its file.
    is_unknown: bool,
    kind: FrameKind,
}

impl FrameFacts {
    /// Forgets backtraces that only one side makes: then the diff is why.
    pub(super) fn forget_one_sided(sides: &mut [Vec<Self>; 2]) {
        let names_lines = |facts: &Vec<Self>| facts.iter().any(|one| one.names_lines);
        if !sides.iter().all(names_lines) {
            sides.iter_mut().flatten().for_each(|one| one.names_lines = false);
        }
    }

    /// Returns what a type has in the frame's place. The frames inside name the type.
    fn replacement(&self, inner: &[&Frame]) -> Option<&Replacement> {
        let is_named = |of_type: &str| {
            inner.iter().any(|frame| frame.function.as_deref().is_some_and(|path| names(path, of_type)))
        };
        self.replacements.iter().find(|one| is_named(&one.of_type))
    }
}

impl Diff {
    /// Returns the changed lines, or none if they are not known.
    pub(super) fn changes(&self) -> &Changes {
        static NONE: Changes = Changes::NONE;
        self.changes.as_ref().unwrap_or(&NONE)
    }

    pub(super) fn facts(&self, side: Side, frame: &Frame) -> FrameFacts {
        FrameFacts {
            hunk: self.changes().hunk(side, frame),
            dependency: self.versions.change(side, frame),
            replacements: self.changes().replacements(side, frame),
            names_lines: frame.names_lines(),
            is_unknown: self.changes().is_unknown(side, frame)
                || self.versions.may_be_generated_otherwise(frame),
            kind: frame.kind(),
        }
    }

    /// Returns the class of a stack, whose frames are the innermost first; `None` if its frames have
    /// no lines, or the changes of its code are not known, so that nothing can be said.
    pub(super) fn class(&self, side: Side, stack: &[&Frame], facts: &[&FrameFacts]) -> Option<Class> {
        self.changes.as_ref()?;
        let first = naming(facts.iter().map(|facts| facts.kind))?;
        stack[first].place.as_ref()?;
        // What a caller does with each line is its own code.
        if facts[..first].iter().any(|one| one.names_lines) {
            return Some(Class::DebugInformation);
        }
        if let Some(hunk) = &facts[first].hunk {
            return Some(Class::Changed(self.existence(side, stack[first]), hunk.clone()));
        }
        // What is nearest to the allocation says most.
        for (index, (frame, facts)) in stack.iter().zip(facts).enumerate() {
            if facts.is_unknown {
                return None;
            }
            if let Some(changed) = &facts.dependency {
                return Some(Class::Dependency(changed.clone()));
            }
            if let Some(hunk) = facts.hunk.as_ref().filter(|_| index > first) {
                let location = frame.location().unwrap_or_default();
                let caller = Caller { function: frame.name(), location };
                return Some(Class::CalledFrom(caller, hunk.clone()));
            }
            if let Some(replacement) = facts.replacement(&stack[..index]) {
                let Replacement { function, location, hunk, .. } = replacement.clone();
                return Some(Class::CalledFrom(Caller { function, location }, hunk));
            }
        }
        Some(Class::Unchanged)
    }

    /// Says where blocks end, by the stack that ends them; `None` if nothing can be said.
    pub(super) fn ended(
        &self,
        side: Side,
        (way, is_before_peak): (Way, bool),
        stack: &[&Frame],
        facts: &[&FrameFacts],
    ) -> Option<Ended> {
        self.changes.as_ref()?;
        let change = |index: usize| {
            let (frame, facts) = (stack[index], facts[index]);
            if let Some(changed) = &facts.dependency {
                return Some(ChangedEnd::Dependency(changed.clone()));
            }
            if let Some(hunk) = &facts.hunk {
                let (function, existence) = (frame.name(), self.existence(side, frame));
                return Some(ChangedEnd::Code { function, existence, hunk: hunk.clone() });
            }
            let Replacement { function, hunk, .. } = facts.replacement(&stack[..index])?.clone();
            let existence = if side == Side::Baseline { Existence::New } else { Existence::Deleted };
            Some(ChangedEnd::Code { function, existence, hunk })
        };
        let known = facts.iter().take_while(|facts| !facts.is_unknown).count();
        let found = (0..known).find_map(|index| Some((index, change(index)?)));
        let (index, change) = match found {
            Some((index, change)) => (index, Some(change)),
            None if known < stack.len() => return None,
            None => (shown(stack)?, None),
        };
        let frame = stack[index];
        frame.place.as_ref()?;
        let (function, location) = (frame.name(), frame.location());
        Some(Ended { side, way, is_before_peak, function, location, change })
    }

    fn existence(&self, side: Side, frame: &Frame) -> Existence {
        match side {
            _ if !self.changes().is_only_here(side, frame) => Existence::Both,
            Side::Baseline => Existence::Deleted,
            Side::Candidate => Existence::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::frame::Place;
    use crate::why::hunks::ChangedSources;
    use crate::why::hunks::tests::changes;
    use crate::why::stacks::tests::frame;
    use crate::why::stored::StoredFile;
    use std::collections::BTreeSet;

    const OLD: &str =
        "fn a() {\n    b();\n}\nfn b() {\n    c(1);\n}\nfn c() {\n    x();\n}\nfn gone() {\n}\n";
    const NEW: &str =
        "fn a() {\n    b();\n}\nfn b() {\n    c(2);\n}\nfn c() {\n    x();\n}\nfn fresh() {\n}\n";

    fn class(side: Side, stack: &[&str]) -> Option<Class> {
        let frames: Vec<Frame> = stack.iter().map(|text| frame(text)).collect();
        let packages = |version: &str| [("d".to_owned(), [version.to_owned()].into())].into();
        let versions = Versions::default().with_lock_files([packages("1.0.0"), packages("1.1.0")]);
        let diff = Diff { changes: Some(changes(OLD, NEW)), versions };
        let facts: Vec<FrameFacts> = frames.iter().map(|frame| diff.facts(side, frame)).collect();
        diff.class(side, &frames.iter().collect::<Vec<_>>(), &facts.iter().collect::<Vec<_>>())
    }

    fn of_candidate(stack: &[&str]) -> Option<Class> {
        class(Side::Candidate, stack)
    }

    #[test]
    fn the_sites_own_function_comes_first() {
        let Some(Class::Changed(Existence::Both, hunk)) =
            of_candidate(&["d::f@d-1.1.0/src/lib.rs:1", "a::b@src/lib.rs:5"])
        else {
            panic!("it is changed");
        };
        assert_eq!((&*hunk.path, &*hunk.hunk.to_string()), ("src/lib.rs", "@@ -5 +5 @@"));
    }

    #[test]
    fn new_and_deleted_functions_are_changed() {
        let existence = |class: Option<Class>| match class {
            Some(Class::Changed(existence, _)) => existence,
            other => panic!("{other:?}"),
        };
        assert_eq!(existence(of_candidate(&["a::fresh@src/lib.rs:10"])), Existence::New);
        assert_eq!(existence(class(Side::Baseline, &["a::gone@src/lib.rs:10"])), Existence::Deleted);
    }

    #[test]
    fn the_nearest_changed_caller_is_named() {
        let found = of_candidate(&["a::c@src/lib.rs:8", "a::b@src/lib.rs:5", "a::fresh@src/lib.rs:10"]);
        let Some(Class::CalledFrom(caller, hunk)) = found else { panic!("{found:?}") };
        assert_eq!((&*caller.function, &*caller.location), ("a::b", "src/lib.rs:5"));
        assert_eq!(hunk.hunk.to_string(), "@@ -5 +5 @@");
    }

    #[test]
    fn a_changed_dependency_is_named_with_both_versions() {
        let found = of_candidate(&[
            "alloc::vec::f",
            "d::f@d-1.1.0/src/lib.rs:1",
            "a::c@src/lib.rs:8",
            "a::b@src/lib.rs:5",
        ]);
        let Some(Class::Dependency(changed)) = found else { panic!("{found:?}") };
        assert_eq!(
            (&*changed.name, changed.old.as_deref(), changed.new.as_deref()),
            ("d", Some("1.0.0"), Some("1.1.0"))
        );
    }

    #[test]
    fn a_function_that_the_trait_provides_may_have_been_replaced() {
        let old = "struct M<K>(K);\nfn a() {\n    x();\n}\n";
        let new = format!("{old}impl<K> Clone for M<K> {{\n    fn clone_from(&mut self) {{\n    }}\n}}\n");
        let diff = Diff { changes: Some(changes(old, &new)), ..Diff::default() };
        let class = |inner: &str| {
            let frames = [inner, "core::clone::Clone::clone_from", "a::a@src/lib.rs:3"].map(frame);
            let facts = frames.each_ref().map(|frame| diff.facts(Side::Baseline, frame));
            diff.class(Side::Baseline, &frames.each_ref(), &facts.each_ref())
        };
        let Some(Class::CalledFrom(caller, _)) = class("core::ptr::drop_in_place<a::M<u8>>") else {
            panic!("the type has its own function now");
        };
        assert_eq!((&*caller.function, &*caller.location), ("<M<K> as Clone>::clone_from", "src/lib.rs:6"));
        assert_eq!(class("core::ptr::drop_in_place<a::N<u8>>"), Some(Class::Unchanged), "another type");
    }

    #[test]
    fn the_rest_is_unchanged_and_without_lines_nothing_is_said() {
        assert_eq!(of_candidate(&["a::c@src/lib.rs:8", "a::a@src/lib.rs:2"]), Some(Class::Unchanged));
        let bare = Frame { place: None, line: None, ..frame("a::c@src/lib.rs:8") };
        let no_changes = Diff { changes: Some(Changes::NONE), ..Diff::default() };
        let facts = no_changes.facts(Side::Candidate, &bare);
        assert_eq!(no_changes.class(Side::Candidate, &[&bare], &[&facts]), None);
        assert_eq!(no_changes.class(Side::Candidate, &[], &[]), None);
    }

    #[test]
    fn of_a_submodule_that_changed_in_an_unknown_way_nothing_is_said() {
        let files = [StoredFile::unknown("src/lib/")];
        let changes = Some(ChangedSources::new(&files).used(&[BTreeSet::new(), BTreeSet::new()]));
        let diff = Diff { changes, ..Diff::default() };
        let class = |stack: &[&str]| {
            let frames: Vec<Frame> = stack.iter().map(|text| frame(text)).collect();
            let facts: Vec<FrameFacts> =
                frames.iter().map(|frame| diff.facts(Side::Candidate, frame)).collect();
            let (frames, facts): (Vec<_>, Vec<_>) = (frames.iter().collect(), facts.iter().collect());
            let ended = diff.ended(Side::Candidate, (Way::Freed, false), &frames, &facts);
            assert_eq!(ended.is_none(), stack.iter().any(|frame| frame.contains("src/lib/")));
            diff.class(Side::Candidate, &frames, &facts)
        };
        assert_eq!(class(&["lib::f@src/lib/a.rs:8", "a::a@src/lib.rs:2"]), None);
        assert_eq!(class(&["a::a@src/lib.rs:2", "lib::f@src/lib/a.rs:8"]), None, "a caller may have changed");
        assert_eq!(class(&["a::a@src/lib.rs:2"]), Some(Class::Unchanged));
    }

    #[test]
    fn of_code_that_a_build_script_may_have_written_otherwise_nothing_is_said() {
        let generated = |digest: Option<&str>| Frame {
            place: Some(Place::Generated {
                package: "app".to_owned(),
                path: "tables.rs".to_owned(),
                digest: digest.map(str::to_owned),
            }),
            ..frame("app::table@src/lib.rs:2")
        };
        let class = |digests: [Option<&str>; 2]| {
            let [old, new] = digests.map(generated);
            let versions = Versions::of_frames([&mut [&old].into_iter(), &mut [&new].into_iter()]);
            let is_same = digests[0].is_some() && digests[0] == digests[1];
            assert_eq!(versions.problems().is_empty(), is_same, "the report says so");
            let diff = Diff { changes: Some(Changes::NONE), versions };
            let test = frame("app::test@tests/t.rs:1");
            let stack = [&new, &test];
            let facts = stack.map(|frame| diff.facts(Side::Candidate, frame));
            diff.class(Side::Candidate, &stack, &facts.each_ref())
        };
        assert_eq!(class([Some("a"), Some("b")]), None);
        assert_eq!(class([None, None]), None, "it is not known what was written");
        assert_eq!(class([Some("a"), Some("a")]), Some(Class::Unchanged));
    }

    #[test]
    fn without_known_changes_nothing_is_said() {
        let site = frame("a::c@src/lib.rs:8");
        let facts = Diff::default().facts(Side::Candidate, &site);
        assert_eq!(Diff::default().class(Side::Candidate, &[&site], &[&facts]), None);
    }
}
