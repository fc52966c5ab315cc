//! Which targets can contain a selected test, by the texts of a revision.

use memprof_build::inject::overlay::OverlayFile;
use memprof_build::provenance::FailedTarget;
use memprof_build::selected_targets::{RevisionTexts, only_tests};
use memprof_plan::request::{OverlayMode, Request, Selection, TargetKind, TestRequest};
use memprof_plan::resolved::Revision;

use crate::support::TestRepository;

fn selecting(expression: &str) -> Request {
    let selection = Selection { expression: Some(expression.into()), ..Selection::default() };
    Request { tests: vec![TestRequest { selection, ..TestRequest::default() }], ..Request::default() }
}

fn revision(commit: &str) -> Revision {
    Revision {
        name: "main".into(),
        spec: "main".into(),
        commit: commit.into(),
        tree: commit.into(),
        subject: String::new(),
        time: 0,
        found: None,
        working_tree: false,
    }
}

fn failed(kind: TargetKind, root: &str) -> FailedTarget {
    let binary = root.rsplit('/').next().unwrap().trim_end_matches(".rs").to_owned();
    FailedTarget {
        package: "tool".into(),
        binary,
        kind,
        root: root.into(),
        errors: String::new(),
        is_program: false,
    }
}

#[test]
fn a_failed_target_may_contain_what_its_own_files_and_macros_name() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'tool'\n# keeps\n");
    repository.write("README.md", "keeps drops shares\n");
    repository.write("src/lib.rs", "mod inner;\n");
    repository.write("src/inner.rs", "#[test]\nfn drops() {}\n");
    repository.write("src/suite.rs", "macro_rules! suite { () => { #[test] fn conforms() {} } }\n");
    repository.write("tests/broken.rs", "mod common;\nfn Keeps_all() {}\n");
    repository.write("tests/other.rs", "fn other_only() {}\n");
    repository.write("tests/common/mod.rs", "fn shares() {}\n");
    repository.write("tests/data/Listed_Case.json", "{}\n");
    let commit = repository.commit("all");
    let (repository, revision) = (repository.open(), revision(&commit));
    let texts = RevisionTexts::new(&repository, &revision, &[], &[]);
    let may =
        |expression: &str, kind, root: &str| texts.may_select(&selecting(expression), &failed(kind, root));
    let broken = |expression: &str| may(expression, TargetKind::Test, "tests/broken.rs");
    for possible in
        ["keeps", "broken", "tool", "shares", "conforms", "listed_case", "not other_only", "broken::keeps"]
    {
        assert!(broken(possible), "{possible}");
    }
    for impossible in ["drops", "other_only", "nowhere", "not broken", "keeps and drops", "other::keeps"] {
        assert!(!broken(impossible), "{impossible}");
    }
    let library = |expression: &str| may(expression, TargetKind::Lib, "src/lib.rs");
    assert!(library("drops") && library("tool::lib::drops") && !library("other_only"));
}

#[test]
fn folders_of_tests_in_a_folder_of_sources_may_belong_to_either() {
    let mut repository = TestRepository::new();
    repository.write("src/lib.rs", "#[cfg(test)]\nmod tests;\n");
    repository.write("src/tests/mod.rs", "mod decode;\n");
    repository.write("src/tests/decode.rs", "#[test]\nfn decodes() {}\n");
    repository.write("src/tool/tests/it/main.rs", "mod png;\n");
    repository.write("src/tool/tests/it/png.rs", "#[test]\nfn reads() {}\n");
    let commit = repository.commit("all");
    let (repository, revision) = (repository.open(), revision(&commit));
    let texts = RevisionTexts::new(&repository, &revision, &[], &[]);
    assert!(texts.may_select(&selecting("decodes"), &failed(TargetKind::Lib, "src/lib.rs")));
    assert!(texts.may_select(&selecting("reads"), &failed(TargetKind::Test, "src/tool/tests/it/main.rs")));
}

#[test]
fn a_target_in_a_submodule_may_contain_any_test() {
    let mut repository = TestRepository::new();
    repository.write("tests/broken.rs", "fn breaks() {}\n");
    repository.commit("all");
    repository.git([
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{},vendor/lib", "1".repeat(40)),
    ]);
    repository.git(["commit", "--quiet", "--message", "a submodule"]);
    let commit = repository.git(["rev-parse", "HEAD"]).trim().to_owned();
    let (opened, revision) = (repository.open(), revision(&commit));
    let overlay = [OverlayFile {
        package: None,
        destination: "tests/memprobe.rs".into(),
        content: "fn decodes() {}\n".into(),
        mode: OverlayMode::Package,
    }];
    let texts = RevisionTexts::new(&opened, &revision, &overlay, &[]);
    let may = |root: &str| texts.may_select(&selecting("encodes"), &failed(TargetKind::Test, root));
    assert!(may("vendor/lib/tests/all.rs") && !may("tests/broken.rs"));
    assert_eq!(only_tests(&texts, &selecting("decodes")), None, "the submodule may have one, too");
}

#[test]
fn a_cell_is_also_selected_by_its_own_name() {
    let mut repository = TestRepository::new();
    repository.write("tests/hf.rs", "fn hf_fwd() {}\n");
    let commit = repository.commit("all");
    let (repository, revision) = (repository.open(), revision(&commit));
    let texts = RevisionTexts::new(&repository, &revision, &[], &[]);
    let mut request = selecting("hf_fwd");
    let within = Selection { expression: Some("RoBERTa".into()), ..Selection::default() };
    request.tests[0].selection.within = Some(Box::new(within));
    let may = |request: &Request| texts.may_select(request, &failed(TargetKind::Test, "tests/hf.rs"));
    assert!(!may(&request));
    request.tests[0].name = Some("RoBERTa/{batch}".into());
    assert!(may(&request));
}

#[test]
fn a_test_file_that_others_have_as_a_module_counts_for_them() {
    let mut repository = TestRepository::new();
    repository.write("tests/broken.rs", "mod other;\n");
    repository.write("tests/other.rs", "fn other_only() {}\n");
    repository.write("benches/speed.rs", "#[path = \"../tests/far.rs\"] mod far;\n");
    repository.write("tests/far.rs", "fn far_away() {}\n");
    let commit = repository.commit("all");
    let (repository, revision) = (repository.open(), revision(&commit));
    let texts = RevisionTexts::new(&repository, &revision, &[], &[]);
    let may =
        |expression: &str, kind, root: &str| texts.may_select(&selecting(expression), &failed(kind, root));
    assert!(may("other_only", TargetKind::Test, "tests/broken.rs"));
    assert!(may("far_away", TargetKind::Bench, "benches/speed.rs"));
    assert!(!may("far_away", TargetKind::Test, "tests/broken.rs"));
}

#[test]
fn only_the_overlays_tests_are_built_if_nothing_else_has_the_name() {
    let mut repository = TestRepository::new();
    repository.write("Cargo.toml", "[package]\nname = 'tool'\n");
    repository.write("README.md", "memprobe\n");
    repository.write("src/lib.rs", "fn keeps() {}\n");
    repository.write("tests/memprobe.rs", "fn replaced() {}\n");
    let plain = repository.commit("plain");
    repository.write("tests/all.rs", "mod memprobe;\n");
    let as_module = repository.commit("a module");
    let opened = repository.open();
    let file = |destination: &str, content: &str| OverlayFile {
        package: None,
        destination: destination.into(),
        content: content.into(),
        mode: OverlayMode::Package,
    };
    let overlay = [file("tests/memprobe.rs", "fn retains() {}\n")];
    let only = |commit: &str, request: &Request, overlay: &[OverlayFile]| {
        let revision = revision(commit);
        let texts = RevisionTexts::new(&opened, &revision, overlay, &[]);
        only_tests(&texts, request).map(|tests| tests.into_iter().collect::<Vec<_>>().join(","))
    };
    for narrow in
        ["memprobe", "RETAINS", "tool and memprobe", "memprobe or retains", "memprobe and not keeps"]
    {
        assert_eq!(only(&plain, &selecting(narrow), &overlay).as_deref(), Some("memprobe"), "{narrow}");
    }
    for wide in ["keeps", "memprobe or keeps", "not memprobe", "tool", "memprobbe", "m"] {
        assert_eq!(only(&plain, &selecting(wide), &overlay), None, "{wide}");
    }
    assert_eq!(only(&as_module, &selecting("retains"), &overlay), None, "all::memprobe::retains is a test");
    let and_library = [&overlay[..], &[file("src/lib.rs", "fn retains() {}\n")]].concat();
    assert_eq!(only(&plain, &selecting("retains"), &and_library), None);
    assert_eq!(only(&plain, &selecting("memprobe"), &[]), None);
    let everything = Request { tests: vec![TestRequest::default()], ..Request::default() };
    assert_eq!(only(&plain, &everything, &overlay), None);
    let mut asked = selecting("memprobe");
    asked.build.all_tests = true;
    assert_eq!(only(&plain, &asked, &overlay), None);
}

#[test]
fn a_file_that_the_clone_lacks_may_have_any_name_unless_it_is_not_checked_out() {
    let mut repository = TestRepository::new();
    repository.write("src/lib.rs", "fn keeps() {}\n");
    repository.write("data/large.bin", "unlike any other\n");
    let commit = repository.commit("all");
    let blob = repository.git(["rev-parse", "HEAD:data/large.bin"]);
    let (folder, file) = blob.trim().split_at(2);
    std::fs::remove_file(repository.root().join(".git/objects").join(folder).join(file))
        .expect("a loose object");
    let opened = repository.open();
    let found =
        |without: &[String]| opened.files_with(&commit, "keeps", without).map_err(|error| error.to_string());
    assert!(found(&[]).unwrap_err().contains("data/large.bin"));
    assert_eq!(found(&["/data/".to_owned()]), Ok(vec!["src/lib.rs".to_owned()]));
}
