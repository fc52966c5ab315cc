//! `ci/histories.sh` with a program in place of `cargo memprof`, on clones of small repositories.

use std::os::unix::fs::PermissionsExt;

use crate::support::{TestRepository, isolated};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ci/histories.sh");

/// Writes a line to the log and fails, until it gets the flag that its help names.
const PROGRAM: &str = "#!/bin/sh
echo \"$PWD: $*\" >>\"$CALLS\"
case \"$*\" in
*'--lockfile-date 2021-01-02'*) echo 'memory: 1 regressed'; exit 1 ;;
*) echo 'error: no build' >&2; echo '  help: use one with --lockfile-from REF, or --lockfile-date 2021-01-02' >&2; exit 3 ;;
esac
";

#[test]
fn each_pair_is_a_row_and_a_help_that_names_a_flag_is_followed() {
    let place = TestRepository::new();
    let mirrors = place.beside("mirrors");
    let program = place.beside("program");
    std::fs::write(&program, PROGRAM).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut source = TestRepository::new();
    source.write("file", "");
    source.commit("first");
    let mirror = mirrors.join("jeromefroe+lru-rs/repo");
    std::fs::create_dir_all(mirror.parent().unwrap()).unwrap();
    source.git(["clone", "--quiet", "--bare", ".", mirror.to_str().unwrap()]);

    let calls = place.beside("calls");
    let mut script = isolated("bash");
    script.args([SCRIPT, "edition 2015", "proc macro"]).env("CALLS", &calls);
    script.env("MEMPROF_MIRRORS", &mirrors).env("MEMPROF_PROGRAM", &program);
    let output = script.env("MEMPROF_FOLDER", place.beside("out")).output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert_eq!(rows.len(), 2, "{table}");
    let pasted = "-k leaks --lockfile-date 2021-01-02` | 2 | ";
    assert!(rows[0].contains(pasted) && rows[0].ends_with("| 1 | 1 regressed |"), "{table}");
    assert!(
        rows[1].contains("| dtolnay/thiserror | ") && rows[1].contains("| 0 | | | no clone: "),
        "{table}"
    );
    let calls = std::fs::read_to_string(calls).unwrap();
    let arguments = "jeromefroe+lru-rs: memprof 4460158~1 4460158 -k leaks";
    assert!(calls.lines().count() == 2 && calls.lines().all(|line| line.contains(arguments)), "{calls}");
    assert_eq!(output.status.code(), Some(1), "a pair has no verdict");
}
