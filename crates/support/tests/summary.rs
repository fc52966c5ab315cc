//! Runs after all other tests and shows what they left out. Cargo runs test executables in the order
//! of their crates' names, so this one is in the last crate.

#[path = "../../../tests/support/skips.rs"]
#[expect(dead_code, reason = "the tests write what is read here")]
mod skips;

#[expect(clippy::print_stdout, reason = "the report of the tests is for the terminal")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let notes = std::fs::read_to_string(skips::file()).unwrap_or_default();
    // Also removes notes of runs that failed before they came here.
    let _ = std::fs::remove_dir_all(skips::folder());
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    let mut lines: Vec<&str> = notes.lines().collect();
    lines.sort_unstable();
    if !lines.is_empty() {
        println!("\nThese tests checked less, because something is not installed:");
    }
    for line in lines {
        println!("  {line}");
    }
    if arguments.is_empty() {
        println!(
            "\nNot run: real builds of every kind, faults and optimised programs (minutes). `just test-all` runs them:"
        );
        println!("  cargo test -- --include-ignored");
        println!("  cargo test --test slow --test summary -- --include-ignored");
    }
}
