//! What leads a test to its own executable, to start or to read it.

use memchr::memmem;

use super::graph::Node;

/// Parts of names of what leads to the test's own executable: its path, which is also the first argument, and call
/// stacks, whose functions and lines are in the executable. `Backtrace::capture` needs a variable for them.
const NAMES: [&str; 8] = [
    "3env11current_exe",
    "3env4args",
    "3env7args_os",
    "3imp4ARGV",
    "9Backtrace13force_capture",
    "9backtrace7capture",
    "9backtrace9backtrace",
    "9backtrace9symbolize",
];

/// The nodes with which a test finds its own executable: one that does it, or one that has each part of the path.
pub(super) struct Finding {
    by_name: Vec<usize>,
    /// `/proc`
    folder: Vec<usize>,
    /// `exe`, as in `/proc/self/exe` and `/proc/12/exe`
    file: Vec<usize>,
}

impl Finding {
    pub fn of(nodes: &[Node<'_>]) -> Self {
        let leading = |is_own: &dyn Fn(&Node<'_>) -> bool, with_itself: bool| -> Vec<usize> {
            let is_own: Vec<bool> = nodes.iter().map(is_own).collect();
            let refers =
                |node: &Node<'_>| node.references.iter().flat_map(|one| &one.to).any(|next| is_own[*next]);
            let leads = |(index, node): &(usize, &Node<'_>)| is_own[*index] && with_itself || refers(node);
            nodes.iter().enumerate().filter(leads).map(|(index, _)| index).collect()
        };
        Self {
            by_name: leading(&|node| NAMES.iter().any(|name| node.section.contains(name)), false),
            folder: leading(&|node| names_folder(&node.bytes, is_code(node)), true),
            file: leading(&|node| names_file(&node.bytes, is_code(node)), true),
        }
    }

    /// Whether a test may find its executable that reaches these nodes.
    pub fn is_in(&self, reaches: impl Fn(usize) -> bool) -> bool {
        let any = |of: &[usize]| of.iter().any(|index| reaches(*index));
        any(&self.by_name) || any(&self.folder) && any(&self.file)
    }
}

fn is_code(node: &Node<'_>) -> bool {
    node.section.starts_with(".text")
}

/// Whether a text has the folder of processes. Optimised code copies it in numbers of 4 or 8 letters.
fn names_folder(bytes: &[u8], is_code: bool) -> bool {
    if is_code { memmem::find(bytes, b"/pro").is_some() } else { has_word(bytes, b"/proc") }
}

/// Whether a text has the name of a process's executable there.
fn names_file(bytes: &[u8], is_code: bool) -> bool {
    if is_code {
        return memmem::find(bytes, b"/exe").is_some();
    }
    has_word(bytes, b"/exe") || bytes.strip_suffix(b"\0").unwrap_or(bytes) == b"exe"
}

/// Whether a text has this, and no letter after it.
fn has_word(bytes: &[u8], word: &[u8]) -> bool {
    memmem::find_iter(bytes, word).any(|at| {
        !bytes.get(at + word.len()).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_ends_where_no_letter_follows() {
        assert!(names_folder(b"/proc", false));
        assert!(names_folder(b"\x06/proc/\xc0\x04/exe\0", false));
        assert!(names_file(b"\x06/proc/\xc0\x04/exe\0", false));
        assert!(names_file(b"exe", false));
        assert!(names_file(b"exe\0", false));
        assert!(!names_folder(b"src/process/mod.rs", false));
        assert!(!names_file(b"src/executor.rs", false));
        assert!(!names_file(b"exercise", false));
        assert!(names_folder(b"\xc7\x00/pro\x66\xc7\x40\x04c/", true), "in numbers");
        assert!(names_file(b"\xc7\x00/exe", true));
    }
}
