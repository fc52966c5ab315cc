//! What a change can reach: for each test of an executable, a hash of all functions and data that the test can
//! get to. Tests with equal hashes run the same code on the same constants, although their executables differ.
//!
//! A test's function, the harness and what the loader calls are the start. From each function, every reference
//! is followed, called or not. So nothing depends on what a run does.

mod graph;
mod linker_map;

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, ensure};
use object::elf;

use graph::{Graph, Node};

/// How deep constants may be nested: a struct with a list of texts has three levels. What is deeper counts by its
/// bytes alone.
const DEPTH: usize = 8;

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
    let graph = Graph::read(executable, &linker_map::parse(map)?)?;
    let entries = entries(&graph, tests)?;
    let hashes = hashes(&graph.nodes);
    let of_tests: HashSet<usize> = entries.values().copied().collect();
    // The harness's list of tests, and its `main`, which has their number.
    let refers_to = |node: &Node<'_>, to: &HashSet<usize>| {
        node.references.iter().any(|reference| reference.to.iter().any(|one| to.contains(one)))
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
    let reach = |roots: &[usize]| -> (u128, Vec<bool>) {
        let mut sum = 0_u128;
        let mut reached = vec![false; graph.nodes.len()];
        let mut open = roots.to_vec();
        while let Some(index) = open.pop() {
            if std::mem::replace(&mut reached[index], true) {
                continue;
            }
            if !uncounted.contains(&index) {
                sum = sum.wrapping_add(hashes[index]);
            }
            let next = graph.nodes[index].references.iter().flat_map(|reference| &reference.to);
            open.extend(next.filter(|next| !of_tests.contains(next)));
        }
        (sum, reached)
    };
    let (of_all, _) = reach(&graph.roots);
    Ok(entries
        .into_iter()
        .map(|(name, entry)| (name.to_owned(), format!("{:032x}", of_all.wrapping_add(reach(&[entry]).0))))
        .collect())
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

/// Whether a node has a name of its own, which others refer to. Constants have numbers, which change.
fn is_named(node: &Node<'_>) -> bool {
    const KINDS: [&str; 6] = [".text.", ".data.", ".bss.", ".rodata.", ".tdata.", ".tbss."];
    const MERGED: [&str; 2] = [".rodata.cst", ".rodata.str"];
    let begins = |names: &[&str]| names.iter().any(|name| node.section.starts_with(name));
    begins(&KINDS) && !begins(&MERGED) && !node.section.contains("..L")
}

/// Returns a hash of each node: its name, its bytes, and what it refers to. A function or static counts there by its
/// name, and a constant by its content.
fn hashes(nodes: &[Node<'_>]) -> Vec<u128> {
    let own = |node: &Node<'_>| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(if is_named(node) { node.section.as_bytes() } else { b"" });
        hasher.update(&node.size.to_le_bytes()).update(&node.bytes);
        for one in &node.references {
            hasher
                .update(&one.offset.to_le_bytes())
                .update(&one.kind.0.to_le_bytes())
                .update(&one.within.to_le_bytes());
            hasher.update(one.symbol.as_bytes()).update(&[0]);
        }
        hasher.finalize()
    };
    let contents: Vec<blake3::Hash> = nodes.iter().map(own).collect();
    let with = |(node, content): (&Node<'_>, &blake3::Hash), others: &[blake3::Hash]| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(content.as_bytes());
        for to in node.references.iter().flat_map(|reference| &reference.to) {
            hasher.update(others[*to].as_bytes());
        }
        hasher.finalize()
    };
    let named = |node: &Node<'_>| is_named(node).then(|| blake3::hash(node.section.as_bytes()));
    let mut known: Vec<blake3::Hash> =
        nodes.iter().zip(&contents).map(|(node, content)| named(node).unwrap_or(*content)).collect();
    for _ in 0..DEPTH {
        let deeper = nodes
            .iter()
            .zip(&contents)
            .map(|both| if is_named(both.0) { None } else { Some(with(both, &known)) });
        let deeper: Vec<blake3::Hash> =
            deeper.zip(&known).map(|(deeper, known)| deeper.unwrap_or(*known)).collect();
        known = deeper;
    }
    let number = |hash: blake3::Hash| {
        let [low, ..] = hash.as_bytes().as_chunks::<16>().0 else { return 0 };
        u128::from_le_bytes(*low)
    };
    nodes.iter().zip(&contents).map(|both| number(with(both, &known))).collect()
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
}
