//! What a change can reach: for each test of an executable, a hash of all functions and data that the test can
//! get to. Tests with equal hashes run the same code on the same constants, although their executables differ.
//!
//! A test's function, the harness and what the loader calls are the start. From each function, every reference
//! is followed, called or not. So nothing depends on what a run does.

mod exception_tables;
mod graph;
mod indirect;
mod instructions;
mod linker_map;
mod own_executable;

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, ensure};
use object::elf;

use graph::{Graph, Node};
use own_executable::Finding;

/// The extension of the linker's map, which is beside the executable.
pub(crate) const MAP: &str = "memprof-map";

/// The arguments of rustc that make the linker keep what [`of_tests`] reads. The map has this path.
pub(crate) fn arguments(map: &std::path::Path) -> [String; 2] {
    ["-Clink-arg=-Wl,--emit-relocs".to_owned(), format!("-Clink-arg=-Wl,-Map={}", map.display())]
}

/// Returns a hash for each test, 32 hexadecimal digits. `map` is the linker's.
///
/// # Errors
///
/// The code of the tests is not known: another linker or processor, or no relocations.
pub(crate) fn of_tests(
    executable: &[u8],
    map: &str,
    tests: &[&str],
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut graph = Graph::read(executable, &linker_map::parse(map)?)?;
    let entries = entries(&graph, tests)?;
    let of_tests: HashSet<usize> = entries.values().copied().collect();
    // The harness's list of tests, and its `main`, which has their number.
    let refers_to = |node: &Node<'_>, to: &HashSet<usize>| {
        // Another function may have the address of a table that is beside the list.
        let is_main = node.section.ends_with("4main") || node.section.contains("4main17h");
        (is_main || !node.section.starts_with(".text"))
            && node.references.iter().any(|reference| reference.to.iter().any(|one| to.contains(one)))
    };
    let referring = |to: &HashSet<usize>| -> HashSet<usize> {
        graph
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| refers_to(node, to))
            .map(|(index, _)| index)
            .collect()
    };
    let lists = referring(&of_tests);
    let uncounted: HashSet<usize> = referring(&lists).into_iter().chain(lists).collect();
    // A text beside the path of the executable is not this path.
    let finding = Finding::of(&graph.nodes);
    // Nothing but the harness has the list of tests.
    count_near(&mut graph.nodes, &uncounted.union(&of_tests).copied().collect());
    let contents: Vec<blake3::Hash> = graph.nodes.iter().map(content).collect();
    let mut reach = Reach {
        nodes: &graph.nodes,
        contents: &contents,
        uncounted: &uncounted,
        of_tests: &of_tests,
        places: vec![None; graph.nodes.len()],
    };
    let (of_all, reached_by_all) = reach.walk(&graph.roots, 0);
    let whole = blake3::hash(executable);
    let mut of_test = |entry: usize| {
        let (own, reached) = reach.walk(&[entry], reached_by_all.len());
        let mut hasher = blake3::Hasher::new();
        hasher.update(of_all.as_bytes()).update(own.as_bytes());
        // What handles a panic finds the executable, too, and each test reaches that.
        let is_own = |index: usize| reach.places[index].is_some_and(|place| place >= reached_by_all.len());
        if finding.is_in(is_own) {
            hasher.update(whole.as_bytes());
        }
        for index in reached {
            reach.places[index] = None;
        }
        format!("{:.32}", hasher.finalize().to_hex())
    };
    Ok(entries.into_iter().map(|(name, entry)| (name.to_owned(), of_test(entry))).collect())
}

/// Goes through what is reached.
struct Reach<'g> {
    nodes: &'g [Node<'g>],
    contents: &'g [blake3::Hash],
    /// What is gone through, but does not count.
    uncounted: &'g HashSet<usize>,
    /// What is no part of another test's reach.
    of_tests: &'g HashSet<usize>,
    /// When each node was found; `None` if it was not.
    places: Vec<Option<usize>>,
}

impl Reach<'_> {
    /// Returns a hash of all that is reached from these nodes, and was not found before, with its nodes. `before` is
    /// the number of those that were. A reference counts by when its node was found. So nodes of one name or content
    /// are not mistaken for each other, and it does not matter how deep they are, or whether they are in a circle.
    fn walk(&mut self, starts: &[usize], before: usize) -> (blake3::Hash, Vec<usize>) {
        const END: [u8; 8] = [0xff; 8];
        let mut hasher = blake3::Hasher::new();
        let mut reached = Vec::new();
        let mut place = |node: usize, reached: &mut Vec<usize>| {
            let place = self.places[node].get_or_insert_with(|| {
                reached.push(node);
                before + reached.len() - 1
            });
            place.to_le_bytes()
        };
        for start in starts {
            hasher.update(&place(*start, &mut reached));
        }
        let mut next = 0;
        while let Some(index) = reached.get(next).copied() {
            next += 1;
            let is_counted = !self.uncounted.contains(&index);
            if is_counted {
                hasher.update(self.contents[index].as_bytes());
            }
            for reference in &self.nodes[index].references {
                for to in reference.to.iter().filter(|to| !self.of_tests.contains(to)) {
                    let place = place(*to, &mut reached);
                    if is_counted {
                        hasher.update(&place);
                    }
                }
                if is_counted {
                    hasher.update(&END);
                }
            }
        }
        (hasher.finalize(), reached)
    }
}

/// Adds to each reference what it may refer to in place of the node at its address. What is of the harness has no such
/// references, and no other function has them to it.
fn count_near(nodes: &mut [Node<'_>], of_harness: &HashSet<usize>) {
    let is_apart: Vec<bool> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| of_harness.contains(&index) || is_method_table(node))
        .collect();
    for (index, node) in nodes.iter_mut().enumerate() {
        // What calls `main` is in each executable, too.
        let calls_main = node.section == ".text.main" || node.section.contains("10lang_start");
        let is_exact = calls_main || of_harness.contains(&index);
        for reference in &mut node.references {
            let near = std::mem::take(&mut reference.near).into_iter();
            reference.to.extend(near.filter(|one| !is_exact && !is_apart[*one]));
        }
    }
}

/// Whether a constant is a trait's table of methods, which no loop goes through: the destructor or nothing, the size,
/// the alignment, and functions. A table with several elements of one type does not look like this.
fn is_method_table(node: &Node<'_>) -> bool {
    let (words, rest) = node.bytes.as_chunks::<8>();
    let [first, _, alignment, ..] = words else { return false };
    if !rest.is_empty() || !u64::from_le_bytes(*alignment).is_power_of_two() || node.references.is_empty() {
        return false;
    }
    let places: HashSet<u64> = node.references.iter().map(|reference| reference.offset).collect();
    let has_destructor = places.contains(&0);
    let methods = words.len() - 3;
    (has_destructor || *first == [0; 8])
        && places.len() == methods + usize::from(has_destructor)
        && (24..node.size).step_by(8).all(|offset| places.contains(&offset))
}

/// Returns the harness's description of each test: constants with the test's name and its function. One list refers
/// to all of them, and to nothing else. Other constants may have the same texts.
fn entries<'t>(graph: &Graph<'_>, tests: &[&'t str]) -> anyhow::Result<BTreeMap<&'t str, usize>> {
    let names: HashMap<&[u8], &'t str> = tests.iter().map(|name| (name.as_bytes(), *name)).collect();
    let name_of = |node: &Node<'_>| {
        let addresses = node.references.iter().filter(|reference| reference.kind == elf::R_X86_64_64);
        addresses
            .filter_map(|reference| text(graph, node, reference))
            .find_map(|text| names.get(text).copied())
    };
    let found: Vec<Option<&str>> = graph.nodes.iter().map(name_of).collect();
    let listed = |list: &Node<'_>| -> Option<BTreeMap<&'t str, usize>> {
        let one = |reference: &graph::Reference| {
            let [node] = reference.to[..] else { return None };
            Some((found[node]?, node))
        };
        let entries: BTreeMap<&str, usize> = list.references.iter().map(one).collect::<Option<_>>()?;
        (entries.len() == tests.len() && list.references.len() == tests.len()).then_some(entries)
    };
    let mut lists = graph.nodes.iter().filter_map(listed);
    let entries = lists.next().context("the harness's list of tests was not found")?;
    ensure!(lists.all(|other| other == entries), "there is more than one list of tests");
    Ok(entries)
}

/// Returns the text that a constant refers to: an address, and a length after it.
fn text<'g>(graph: &'g Graph<'_>, node: &Node<'_>, reference: &graph::Reference) -> Option<&'g [u8]> {
    let length = usize::try_from(reference.offset).ok()? + 8;
    let length = u64::from_le_bytes(node.bytes.get(length..length + 8)?.try_into().ok()?);
    let start = usize::try_from(reference.within).ok()?;
    graph.nodes[*reference.to.first()?].bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

/// Whether a node has a name of its own. Constants have numbers, which change.
fn is_named(node: &Node<'_>) -> bool {
    const KINDS: [&str; 6] = [".text.", ".data.", ".bss.", ".rodata.", ".tdata.", ".tbss."];
    const MERGED: [&str; 2] = [".rodata.cst", ".rodata.str"];
    let begins = |names: &[&str]| names.iter().any(|name| node.section.starts_with(name));
    begins(&KINDS) && !begins(&MERGED) && !["..L", ".anon."].iter().any(|part| node.section.contains(part))
}

/// Returns a hash of a node, without what it refers to: its name, its bytes, and the places of its references.
fn content(node: &Node<'_>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let name = if is_named(node) { node.section } else { node.called_by_loader().unwrap_or_default() };
    // What units of a crate share is named by its module, whose number any change may change.
    let name = name.split(".llvm.").next().unwrap_or_default();
    hasher.update(name.as_bytes()).update(&[0]);
    hasher.update(node.of_toolchain().unwrap_or_default().as_bytes()).update(&[0]);
    hasher.update(&node.size.to_le_bytes()).update(&node.bytes);
    for one in &node.references {
        hasher
            .update(&one.offset.to_le_bytes())
            .update(&one.kind.0.to_le_bytes())
            .update(&one.within.to_le_bytes());
        hasher.update(one.symbol.as_bytes()).update(&[0]);
    }
    hasher.finalize()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_has_no_hash() {
        let error =
            |executable: &[u8], map: &str| of_tests(executable, map, &["one"]).unwrap_err().to_string();
        let own = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        let map = "VMA LMA Size Align Out In Symbol\n";
        assert_eq!(error(&own, "Memory map\n"), "the linker is not lld, the only one whose map is read");
        assert_eq!(error(b"MZ", map), "the executable is no 64-bit ELF file");
        assert_eq!(error(&own, map), "the linker's map is of another file than the executable");
    }

    #[test]
    fn a_table_of_methods_has_a_size_and_an_alignment_before_functions() {
        let is_one = |words: &[u64], functions: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let reference = |offset: &u64| graph::Reference {
                offset: *offset,
                kind: elf::R_X86_64_64,
                to: vec![0],
                near: Vec::new(),
                within: 0,
                symbol: String::new(),
            };
            is_method_table(&Node {
                section: ".data.rel.ro..Lanon.1",
                file: "of.o",
                address: 64,
                size: bytes.len() as u64,
                bytes,
                references: functions.iter().map(reference).collect(),
            })
        };
        assert!(is_one(&[0, 16, 8, 0, 0], &[0, 24, 32]));
        assert!(is_one(&[0, 16, 8, 0, 0], &[24, 32]), "nothing to drop");
        assert!(is_one(&[0, 16, 8], &[0]), "no methods");
        assert!(!is_one(&[0, 5, 8], &[]), "numbers");
        assert!(!is_one(&[0, 5, 6, 0], &[0, 24]), "no alignment");
        assert!(!is_one(&[0, 5, 8, 0, 5, 8], &[0, 24]), "two elements");
        assert!(!is_one(&[0, 0, 8, 0], &[8, 24]), "no size");
    }

    /// Compiles a program of tests, which is always called the same, and returns the hashes.
    fn compiled(source: &str, tests: &[&str], more: &[&str]) -> BTreeMap<String, String> {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("of.rs"), source).unwrap();
        let usual = ["of.rs", "--test", "--edition=2024", "-Copt-level=s", "-Ccodegen-units=1"];
        let done = std::process::Command::new("rustc")
            .args(usual)
            .args(more)
            .args(arguments(std::path::Path::new("map")))
            .current_dir(folder.path())
            .status();
        assert!(done.unwrap().success());
        let map = fs_err::read_to_string(folder.path().join("map")).unwrap();
        of_tests(&fs_err::read(folder.path().join("of")).unwrap(), &map, tests).unwrap()
    }

    #[test]
    fn a_table_before_or_after_an_address_and_a_place_in_a_section_count() {
        const SOURCE: &str = include_str!("places.rs.in");
        const TESTS: [&str; 6] = ["assembly", "backwards", "both", "forwards", "plain", "thread_local"];
        let old = compiled(SOURCE, &TESTS, &[]);
        let changed = |from: &str, to: &str| -> Vec<String> {
            assert!(SOURCE.contains(from), "{from}");
            let new = compiled(&SOURCE.replacen(from, to, 1), &TESTS, &[]);
            old.iter().filter(|(name, hash)| new[*name] != **hash).map(|(name, _)| name.clone()).collect()
        };
        for (test, from, to) in [
            ("forwards", "\"six\" 60", "\"six\" 61"),
            ("backwards", "\"five\" 50", "\"five\" 51"),
            ("thread_local", "black_box(limits.0", "black_box(limits.1"),
            ("assembly", "black_box(small", "black_box(large"),
        ] {
            let changed = changed(from, to);
            assert!(changed.iter().any(|one| one == test), "{test}: {changed:?}");
            assert!(!changed.iter().any(|one| one == "plain"), "{test}: {changed:?}");
        }
    }

    fn these_are_the_same(same: &[&str], more: &[&str]) {
        const SOURCE: &str = include_str!("own_executable.rs.in");
        const TESTS: [&str; 12] = [
            "argument",
            "by_name",
            "by_number",
            "child",
            "in_folder",
            "joined",
            "owned_path",
            "path",
            "plain",
            "started",
            "status",
            "trace",
        ];
        let old = compiled(SOURCE, &TESTS, more);
        let new = compiled(&SOURCE.replace("black_box(10)", "black_box(90)"), &TESTS, more);
        let are_same: Vec<&str> = TESTS.into_iter().filter(|test| old[*test] == new[*test]).collect();
        assert_eq!(are_same, same, "{more:?}");
    }

    #[test]
    fn a_test_that_finds_its_own_executable_reaches_all_of_it() {
        // A loop may also read the constants beside its own.
        these_are_the_same(&["plain"], &["-Copt-level=3"]);
        these_are_the_same(&["plain", "status"], &["-Copt-level=0"]);
    }

    #[test]
    #[ignore = "optimises the standard library, for 7 s"]
    fn with_link_time_optimisation_too() {
        these_are_the_same(&["plain", "status"], &["-Clto=thin", "-Cstrip=debuginfo"]);
    }

    #[test]
    fn a_function_of_the_toolchain_that_is_called_for_the_first_time_changes_no_other_test() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            #[test] fn plain() { black_box(5); }\n\
            fn of(number: usize) -> usize { number * 2 }\n\
            #[test] fn table() { black_box(of(black_box(7))); }\n";
        let old = compiled(SOURCE, &["plain", "table"], &["-Copt-level=0"]);
        for now in ["number * 2 + 1", "number.to_string().len()", "number.rotate_left(3)"] {
            let new = compiled(&SOURCE.replace("number * 2", now), &["plain", "table"], &["-Copt-level=0"]);
            assert_eq!(old["plain"], new["plain"], "{now}");
            assert_ne!(old["table"], new["table"], "{now}");
        }
    }

    #[test]
    fn an_element_of_a_table_counts_where_the_address_has_the_difference_of_the_index() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            static TABLE: [usize; 8] = [10, 20, 30, 40, 50, 60, 70, 80];\n\
            #[test] fn plain() { black_box(5); }\n\
            #[inline(never)] fn of(index: usize) -> usize {\n\
            if index >= 5 && index < 13 { TABLE[index - 5] } else { 0 } }\n\
            #[test] fn table() { black_box(of(black_box(7))); }\n";
        let more = ["-Copt-level=3", "-Crelocation-model=static"];
        let old = compiled(SOURCE, &["plain", "table"], &more);
        let new = compiled(&SOURCE.replace("30", "31"), &["plain", "table"], &more);
        assert_eq!(old["plain"], new["plain"]);
        assert_ne!(old["table"], new["table"]);
    }

    #[test]
    fn a_constant_at_the_end_of_a_long_list_counts() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            struct Link { next: Option<&'static Link>, number: usize }\n\
            macro_rules! list {\n\
            ($number:literal) => { &Link { next: None, number: $number } };\n\
            ($number:literal, $($more:tt)*) => { &Link { next: Some(list!($($more)*)), number: $number } } }\n\
            static ONE: &Link = list!(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40);\n\
            static TWO: &Link = list!(2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 90);\n\
            fn last(mut link: &Link) -> usize { while let Some(next) = link.next { link = next } link.number }\n\
            #[test] fn plain() { black_box(5); }\n\
            #[test] fn lists() { black_box(last(black_box(ONE)) * 2 + last(black_box(TWO))); }\n";
        let old = compiled(SOURCE, &["plain", "lists"], &[]);
        let swapped = SOURCE.replace("40", "-").replace("90", "40").replace("-)", "90)");
        let new = compiled(&swapped, &["plain", "lists"], &[]);
        assert_eq!(old["plain"], new["plain"]);
        assert_ne!(old["lists"], new["lists"]);
    }

    #[test]
    fn the_order_of_constructors_counts() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            static mut N: usize = 1;\n\
            extern \"C\" fn times() { unsafe { N *= 100 } }\n\
            extern \"C\" fn plus() { unsafe { N += 7 } }\n\
            #[used] #[unsafe(link_section = \".init_array.1\")] static A: extern \"C\" fn() = times;\n\
            #[used] #[unsafe(link_section = \".init_array.300\")] static B: extern \"C\" fn() = plus;\n\
            #[test] fn number() { black_box(unsafe { N }); }\n";
        let old = compiled(SOURCE, &["number"], &[]);
        assert_eq!(old, compiled(&SOURCE.replace("300", "301"), &["number"], &[]));
        for (from, to) in [("array.1\"", "array.400\""), ("init_array.1\"", "fini_array\"")] {
            assert_ne!(old, compiled(&SOURCE.replace(from, to), &["number"], &[]), "{to}");
        }
    }

    #[test]
    fn a_static_counts_in_a_section_that_is_called_like_one_of_the_linker() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            #[unsafe(link_section = \".note.sizes\")] static NOTE: [usize; 2] = [1, 40];\n\
            #[unsafe(link_section = \".hashes\")] static HASHES: [usize; 2] = [1, 50];\n\
            #[unsafe(link_section = \".dynamic_limits\")] static LIMITS: [usize; 2] = [1, 60];\n\
            #[test] fn hashes() { black_box(HASHES[black_box(1)]); }\n\
            #[test] fn limits() { black_box(LIMITS[black_box(1)]); }\n\
            #[test] fn note() { black_box(NOTE[black_box(1)]); }\n\
            #[test] fn plain() { black_box(5); }\n";
        for level in ["-Copt-level=0", "-Copt-level=3"] {
            let old = compiled(SOURCE, &["hashes", "limits", "note", "plain"], &[level]);
            for (test, from, to) in [("note", "40", "41"), ("hashes", "50", "51"), ("limits", "60", "61")] {
                let source = SOURCE.replace(from, to);
                let new = compiled(&source, &["hashes", "limits", "note", "plain"], &[level]);
                let changed: Vec<&String> = old.keys().filter(|name| old[*name] != new[*name]).collect();
                assert_eq!(changed, [test], "{level}");
            }
        }
    }

    #[test]
    fn what_a_panic_drops_counts_where_the_instructions_are_equal() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};\n\
            static N: AtomicUsize = AtomicUsize::new(10);\n\
            struct Guard;\n\
            impl Drop for Guard { #[inline(never)] fn drop(&mut self) { N.fetch_add(5000, SeqCst); } }\n\
            #[inline(never)] fn one() { if black_box(true) { std::panic::panic_any(1u8) } }\n\
            #[inline(never)] fn two() { black_box(1); if black_box(false) { std::panic::panic_any(1u8) } }\n\
            #[inline(never)] fn work() { one(); let _guard = Guard; two(); }\n\
            #[test] fn plain() { black_box(5); }\n\
            #[test] fn unwinds() { _ = std::panic::catch_unwind(work); black_box(N.load(SeqCst)); }\n";
        let old = compiled(SOURCE, &["plain", "unwinds"], &[]);
        let earlier = SOURCE.replace("one(); let _guard = Guard;", "let _guard = Guard; one();");
        let new = compiled(&earlier, &["plain", "unwinds"], &[]);
        assert_eq!(old["plain"], new["plain"]);
        assert_ne!(old["unwinds"], new["unwinds"]);
    }

    #[test]
    fn a_linker_script_has_whole_tables_and_numbers() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            #[used] #[unsafe(link_section = \".sizes.1\")] static A: usize = 1;\n\
            #[used] #[unsafe(link_section = \".sizes.2\")] static B: usize = 40;\n\
            #[used] #[unsafe(link_section = \".sizes.3\")] static C: usize = 3;\n\
            unsafe extern \"C\" { static start: usize; static end_of_sizes: usize; static limit: u8; }\n\
            #[test] fn number() { black_box(&raw const limit); }\n\
            #[test] fn plain() { black_box(5); }\n\
            #[test] fn table() { let (first, behind) = black_box((&raw const start, &raw const end_of_sizes));\n\
            let all = unsafe { std::slice::from_raw_parts(first, behind.offset_from(first) as usize) };\n\
            black_box(all.iter().sum::<usize>()); }\n";
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("sizes.x");
        let of = |source: &str, limit: usize| {
            let table = "SECTIONS { .sizes : { start = .; KEEP(*(SORT(.sizes.*))) PROVIDE(end_of_sizes = .); } } INSERT AFTER .rodata;";
            fs_err::write(&script, format!("{table}\nlimit = {limit};\n")).unwrap();
            let more = format!("-Clink-arg=-Wl,-T,{}", script.display());
            compiled(source, &["number", "plain", "table"], &["-Crelocation-model=static", &more])
        };
        let old = of(SOURCE, 100);
        let changed = |new: &BTreeMap<String, String>| -> Vec<String> {
            old.iter().filter(|(name, hash)| new[*name] != **hash).map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(changed(&of(&SOURCE.replace("40", "41"), 100)), ["table"]);
        assert_eq!(changed(&of(SOURCE, 101)), ["number"]);
    }

    #[test]
    fn what_the_modules_of_a_crate_share_has_no_name() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            #[test] fn plain() { black_box(5); }\n\
            #[test] fn one() { black_box(vec![1]); }\n\
            #[test] fn two() { black_box(vec![2, 2]); }\n\
            mod inner { #[test] fn three() { std::hint::black_box(3); } }\n";
        const TESTS: [&str; 5] = ["inner::three", "more", "one", "plain", "two"];
        // As cargo's release profile.
        let more = ["-Copt-level=3", "-Ccodegen-units=16"];
        let old = compiled(SOURCE, &["inner::three", "one", "plain", "two"], &more);
        let added = format!("{SOURCE}#[test] fn more() {{ black_box(8); }}\n");
        let mut new = compiled(&added, &TESTS, &more);
        new.remove("more");
        assert_eq!(new, old);
    }

    #[test]
    fn the_order_of_what_libraries_find_by_name_does_not_count() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            core::arch::global_asm!(\n\
            \".section .text.v,\\\"ax\\\",@progbits\", \".globl valloc\", \"valloc: mov eax, 1\", \"ret\",\n\
            \".section .text.p,\\\"ax\\\",@progbits\", \".globl pvalloc\", \"pvalloc: mov eax, 2\", \"ret\",\n\
            \".section .text.m,\\\"ax\\\",@progbits\", \".globl memalign\", \"memalign: mov eax, 3\", \"ret\",\n\
            \".section .text.r,\\\"ax\\\",@progbits\", \".globl reallocarray\", \"reallocarray: mov eax, 4\", \"ret\");\n\
            unsafe extern \"C\" { fn valloc() -> usize; fn pvalloc() -> usize; fn memalign() -> usize; fn reallocarray() -> usize; }\n\
            #[test] fn all() { black_box(unsafe { pvalloc() + memalign() + reallocarray() }); }\n\
            #[test] fn calls() { black_box(7); }\n\
            #[test] fn plain() { black_box(5); }\n";
        const TESTS: [&str; 3] = ["all", "calls", "plain"];
        let old = compiled(SOURCE, &TESTS, &[]);
        let new = compiled(&SOURCE.replace("black_box(7)", "black_box(unsafe { valloc() })"), &TESTS, &[]);
        assert_eq!((&old["all"], &old["plain"]), (&new["all"], &new["plain"]));
        assert_ne!(old["calls"], new["calls"]);
    }

    #[test]
    fn functions_and_statics_in_sections_of_one_name_are_not_the_same() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};\n\
            macro_rules! module { ($name:ident $number:literal) => { pub mod $name { use super::*;\n\
            #[inline(never)] #[unsafe(link_section = \".text.hot\")] pub fn of() -> usize { black_box($number) }\n\
            #[unsafe(link_section = \".data.counters\")] pub static N: AtomicUsize = AtomicUsize::new(1);\n\
            #[unsafe(link_section = \".rodata.tables\")] pub static T: [usize; 2] = [$number, 0];\n\
            } } }\n\
            module!(one 3); module!(two 500);\n\
            #[test] fn functions() { black_box(one::of() * 10 + two::of()); }\n\
            #[test] fn plain() { black_box(5); }\n\
            #[test] fn statics() { one::N.store(5, SeqCst); black_box(two::N.load(SeqCst)); black_box(&one::N); }\n\
            #[test] fn tables() { black_box(one::T[black_box(0)] * 10 + two::T[black_box(0)]); }\n";
        const TESTS: [&str; 4] = ["functions", "plain", "statics", "tables"];
        // Each module has an object file.
        let more = ["-Cincremental=incremental", "-Ccodegen-units=256"];
        let old = compiled(SOURCE, &TESTS, &more);
        for (test, from, to) in [
            ("functions", "one::of() * 10 + two::of()", "two::of() * 10 + one::of()"),
            (
                "statics",
                "black_box(two::N.load(SeqCst)); black_box(&one::N)",
                "black_box(one::N.load(SeqCst)); black_box(&two::N)",
            ),
            ("tables", "one::T[black_box(0)] * 10 + two::T", "two::T[black_box(0)] * 10 + one::T"),
        ] {
            assert!(SOURCE.contains(from), "{from}");
            let new = compiled(&SOURCE.replace(from, to), &TESTS, &more);
            let changed: Vec<&String> = old.keys().filter(|name| old[*name] != new[*name]).collect();
            assert_eq!(changed, [test]);
        }
    }

    #[test]
    fn an_indirect_function_is_the_one_that_the_loader_chooses() {
        const SOURCE: &str = "use std::hint::black_box;\n\
            core::arch::global_asm!(\n\
            \".section .text.small,\\\"ax\\\",@progbits\", \"small: mov eax, 40\", \"ret\",\n\
            \".section .text.large,\\\"ax\\\",@progbits\", \"large: mov eax, 90\", \"ret\",\n\
            \".section .text.choosing1,\\\"ax\\\",@progbits\",\n\
            \".type one, @gnu_indirect_function\", \".globl one\", \"one: lea rax, [rip + small]\", \"ret\",\n\
            \".section .text.choosing2,\\\"ax\\\",@progbits\",\n\
            \".type two, @gnu_indirect_function\", \".globl two\", \"two: lea rax, [rip + large]\", \"ret\",\n\
            \".section .data.rel.ro.chosen,\\\"aw\\\",@progbits\", \".globl chosen\", \"chosen: .quad one, two\");\n\
            unsafe extern \"C\" { static chosen: [extern \"C\" fn() -> usize; 2]; }\n\
            #[test] fn indirect() { black_box(unsafe { chosen[black_box(0)]() }); }\n\
            #[test] fn other() { black_box(7); }\n\
            #[test] fn plain() { black_box(5); }\n";
        const TESTS: [&str; 3] = ["indirect", "other", "plain"];
        let old = compiled(SOURCE, &TESTS, &[]);
        assert_eq!(compiled(SOURCE, &TESTS, &[]), old);
        let new = |from: &str, to: &str| {
            assert!(SOURCE.contains(from), "{from}");
            compiled(&SOURCE.replace(from, to), &TESTS, &[])
        };
        assert_ne!(new("eax, 40", "eax, 41")["indirect"], old["indirect"]);
        assert_ne!(new(".quad one, two", ".quad two, one")["indirect"], old["indirect"]);
        let other = new("black_box(7)", "black_box(String::from_utf8(vec![7; 300]).unwrap())");
        assert_ne!(other["other"], old["other"]);
        assert_eq!(other["indirect"], old["indirect"], "jumps elsewhere");
    }
}
