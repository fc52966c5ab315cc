//! Refs of repositories in which nothing is checked out: bare ones, mirrors and clones without files.

use crate::git::{MANIFEST, error, package, plan, request};
use crate::support::TestRepository;
use memprof_build::git::resolve::resolve;
use memprof_support::advice::help;

#[test]
fn where_nothing_is_checked_out_the_manifests_are_those_of_the_refs() {
    let mut source = TestRepository::new();
    source.write("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\nexclude = [\"crates/alone\"]\n");
    source.write("crates/member/Cargo.toml", MANIFEST);
    source.write("crates/alone/Cargo.toml", MANIFEST);
    source.write("other/Cargo.toml", "[package]\nname = \"other\"\nworkspace = \"../deep/root\"\n");
    source.write("deep/root/Cargo.toml", "[workspace]\nmembers = [\"../../other\"]\n");
    source.commit("first");
    source.write("README", "");
    source.commit("second");
    for arguments in [["--bare"], ["--mirror"], ["--no-checkout"]] {
        let clone = TestRepository::clone_of(&source, &arguments);
        let found = |manifest: Option<&str>| {
            let mut request = request(&["main~1", "main"]);
            request.build.manifest_path = manifest.map(str::to_owned);
            let plan = resolve(&request, &clone.open(), &|_| ())?;
            anyhow::Ok((
                plan.workspace,
                plan.request.build.manifest_path,
                plan.request.build.settings.packages,
            ))
        };
        let [none, fixture, other]: [&[&str]; 3] = [&[], &["fixture"], &["other"]];
        for (manifest, workspace, packages) in [
            (None, "", none),
            (Some("Cargo.toml"), "", none),
            (Some("./crates/../crates/member/Cargo.toml"), "", fixture),
            (Some("crates/alone/Cargo.toml"), "crates/alone", none),
            (Some("other/Cargo.toml"), "deep/root", other),
        ] {
            let (folder, path, package) = found(manifest).unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!(
                (folder.as_str(), package.join(",")),
                (workspace, packages.join(",")),
                "{arguments:?} {manifest:?}"
            );
            let normal = manifest.map(|path| path.replace("./crates/..", "").trim_matches('/').to_owned());
            assert_eq!(path, normal);
        }
        let unknown = found(Some("nosuch/Cargo.toml")).unwrap_err();
        assert!(help(&unknown).unwrap().starts_with("choose one: --manifest-path Cargo.toml, or"));
        assert!(found(Some("../Cargo.toml")).is_err());
    }
}

#[test]
fn a_clone_without_a_checkout_has_no_working_tree_to_compare() {
    let mut source = package();
    source.write("README", "");
    source.commit("second");
    let clone = TestRepository::clone_of(&source, &["--no-checkout"]);
    // The folder of earlier runs is no checkout.
    clone.write("target/memprof/.gitignore", "*\n");
    let message = format!("{:#}", error(&clone, &["main", "."]));
    assert!(message.contains("no files are checked out in"), "{message}");
    let usual = memprof_build::git::usual_refs::usual(&clone.open()).unwrap();
    let specs: Vec<&str> = usual.refs.iter().map(|one| one.spec.as_str()).collect();
    assert_eq!(specs, ["HEAD~1", "HEAD"], "not the deletion of all files");
    clone.git(["checkout", "--quiet"]);
    clone.write("src/lib.rs", "");
    assert!(plan(&clone, &["main", "."]).revisions[1].working_tree);
}
