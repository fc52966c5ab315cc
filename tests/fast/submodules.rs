//! Submodules of a revision: checked out in place, left out, refused.

use crate::contents::{ALLOW_FILE, cache, configuration, library, package, read, revision, utf8};
use crate::support::{TestRepository, assert_same_bytes, every_byte, isolated, succeed};
use memprof_build::checkout::cache::Cache;
use memprof_build::checkout::worktree::Worktree;
use memprof_build::git::changed_submodules::ChangedSubmodules;
use memprof_build::git::repository::Repository;
use memprof_build::git::resolve::resolve;
use memprof_plan::changed_file::ChangedFile;
use memprof_plan::request::{RefRequest, Request};
use memprof_support::advice::help;

/// A package whose submodule `lib` is at its first version in `main~1`, and at its second in `main`.
/// The library must live as long as the package.
fn package_with_two_versions_of_a_library() -> (TestRepository, TestRepository) {
    let mut library = library("one\n");
    let mut user = package();
    add_submodule(&user, "lib", &library);
    user.commit("with a submodule");
    library.write("lib.c", "two\n");
    library.commit("two");
    user.git(["-C", "lib", "pull", "--quiet"]);
    user.commit("lib moved");
    (user, library)
}

/// Adds a submodule of this name, as a user would.
fn add_submodule(to: &TestRepository, name: &str, from: &TestRepository) {
    let url = from.url();
    to.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, name]);
}

#[test]
fn a_submodules_own_attributes_decide_its_files_in_every_order() {
    let (user, mut library) = package_with_two_versions_of_a_library();
    library.write(".gitattributes", "lib.c text eol=crlf\n");
    library.commit("crlf");
    user.git(["-C", "lib", "pull", "--quiet"]);
    user.git(["add", "lib"]);
    user.git(["commit", "--quiet", "--message", "lib with CRLF"]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    for (spec, expected) in
        [("main", "two\r\n"), ("main~1", "two\n"), ("main", "two\r\n"), ("main~1", "two\n")]
    {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
        assert_eq!(read(&worktree.path().join("lib/lib.c")), expected, "{spec}");
    }
}

#[test]
fn submodules_are_checked_out_in_place_recursively_and_removed_where_a_revision_has_none() {
    let inner = library("inner\n");
    let mut outer = library("one\n");
    add_submodule(&outer, "inner", &inner);
    outer.commit("with inner");
    let mut source = package();
    add_submodule(&source, "vendor/outer", &outer);
    source.commit("with outer");
    outer.write("lib.c", "two\n");
    outer.commit("two");
    source.git(["-C", "vendor/outer", "pull", "--quiet"]);
    source.commit("outer moved");
    source.git(["rm", "--quiet", "vendor/outer"]);
    source.write("vendor/outer", "a file in its place\n");
    source.commit("no submodule");
    source.git(["rm", "--quiet", "vendor/outer"]);
    source.write("vendor/outer/lib.c", "vendored\n");
    source.commit("vendored");

    // The clone knows nothing of submodules: all comes from their URLs.
    let user = TestRepository::clone_of(&source, &[]);
    let before = configuration(&user);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let check_out = |spec: &str| {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
    };
    let lib = worktree.path().join("vendor/outer/lib.c");
    let inner = worktree.path().join("vendor/outer/inner/lib.c");
    check_out("main~2");
    assert_eq!((read(&lib), read(&inner)), ("two\n".to_owned(), "inner\n".to_owned()));
    std::fs::write(lib.with_file_name("left-by-a-build"), "").unwrap();
    std::fs::write(&lib, "changed").unwrap();
    let time = inner.metadata().unwrap().modified().unwrap();
    check_out("main~3");
    assert_eq!(read(&lib), "one\n");
    assert!(!lib.with_file_name("left-by-a-build").exists());
    assert_eq!(
        inner.metadata().unwrap().modified().unwrap(),
        time,
        "in place: unchanged files keep their time"
    );
    check_out("main~4");
    assert!(!worktree.path().join("vendor").exists());
    check_out("main~3");
    assert_eq!(read(&lib), "one\n");
    check_out("main~1");
    assert_eq!(read(&worktree.path().join("vendor/outer")), "a file in its place\n");
    check_out("main~2");
    check_out("main");
    assert_eq!(read(&lib), "vendored\n");
    assert!(!inner.exists());
    assert_eq!(configuration(&user), before);
}

#[test]
fn a_users_submodule_lends_its_objects_even_commits_that_were_never_pushed() {
    let library = library("one\n");
    let mut source = package();
    add_submodule(&source, "lib", &library);
    source.commit("with a submodule");
    let user = source;
    user.git(["-C", "lib", "config", "user.name", "x"]);
    user.write("lib/lib.c", "never pushed\n");
    user.git(["-C", "lib", "commit", "--quiet", "--all", "--message", "local"]);
    user.write("lib/lib.c", "not even committed\n");
    std::fs::rename(library.root(), library.beside("gone")).unwrap();

    let before = every_byte(&user.path(".git/modules"), |_| false);
    let repository = user.open();
    let events = std::cell::RefCell::new(Vec::new());
    let sink = |event: memprof_support::event::Event| events.borrow_mut().push(format!("{event:?}"));
    let dot = RefRequest { spec: ".".to_owned(), ..RefRequest::default() };
    let request = Request { refs: vec![dot.clone(), dot], ..Request::default() };
    let plan = resolve(&request, &repository, &sink).unwrap();
    let warned =
        events.borrow().iter().any(|event| event.contains("submodule 'lib' has uncommitted changes"));
    assert!(warned, "{events:?}");
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&plan.revisions[0]).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("lib/lib.c")), "never pushed\n");
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("lib/lib.c")), "one\n");
    assert_same_bytes(&before, &every_byte(&user.path(".git/modules"), |_| false));
    assert_eq!(user.read("lib/lib.c"), "not even committed\n");
}

/// Commits a `.gitmodules` with this text.
fn with_gitmodules(user: &mut TestRepository, text: &str) -> String {
    user.write(".gitmodules", text);
    user.commit("another .gitmodules")
}

/// Checks a ref out, and returns the error and its help.
fn refused(repository: &Repository, cache: &Cache, spec: &str) -> (String, String) {
    let worktree = Worktree::open(cache, repository, &[]).unwrap();
    let error = worktree.check_out(&revision(repository, spec)).unwrap_err();
    (format!("{error:#}"), help(&error).unwrap_or_default())
}

#[test]
fn a_submodules_name_that_is_a_path_elsewhere_is_refused_and_nothing_is_written_there() {
    let other = library("unrelated\n");
    let everything = || every_byte(other.root(), |_| false);
    let before = everything();
    let mut user = package();
    user.git(["branch", "good"]);
    let git = other.path(".git").display().to_string();
    // The same path, reached from `modules` of the checkout's entry or of the repository itself.
    let climbing = format!("../../../../..{git}");
    for name in [&git, &climbing, "a/../../b"] {
        with_gitmodules(
            &mut user,
            &format!("[submodule \"{name}\"]\n\tpath = lib\n\turl = {}\n", other.url()),
        );
        let entry = format!("160000,{},lib", other.git(["rev-parse", "HEAD"]));
        user.git(["update-index", "--add", "--cacheinfo", &entry]);
        user.git(["commit", "--quiet", "--message", "a submodule"]);
        let repository = user.open().with_environment(ALLOW_FILE);
        let cache = cache(&user, &repository);
        let (message, help) = refused(&repository, &cache, "main");
        assert!(message.starts_with(".gitmodules of main names the submodule"), "{message}");
        assert!(message.contains(name), "{message}");
        assert!(help.contains("git config --file .gitmodules --rename-section"), "{help}");
        assert_same_bytes(&before, &everything());
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        worktree.check_out(&revision(&repository, "good")).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn a_nested_submodule_is_refused_for_its_name_too() {
    let unrelated = library("unrelated\n");
    let mut outer = library("outer\n");
    let name = unrelated.path(".git").display().to_string();
    with_gitmodules(
        &mut outer,
        &format!("[submodule \"{name}\"]\n\tpath = x\n\turl = {}\n", unrelated.url()),
    );
    let mut user = package();
    add_submodule(&user, "vendor/outer", &outer);
    user.commit("with outer");
    let repository = user.open().with_environment(ALLOW_FILE);
    let (message, _) = refused(&repository, &cache(&user, &repository), "main");
    assert!(message.starts_with("vendor/outer/.gitmodules of main names the submodule"), "{message}");
}

#[test]
fn a_submodules_folder_behind_a_link_is_refused() {
    let inner = library("inner\n");
    let mut user = package();
    user.write(".gitignore", "/vendor\n");
    user.commit("ignores");
    let url = inner.url();
    user.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        "--force",
        &url,
        "vendor/inner",
    ]);
    user.commit("with inner");
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    let elsewhere = user.beside("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::remove_dir_all(worktree.path().join("vendor")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, worktree.path().join("vendor")).unwrap();
    // Git may remove the link itself. It must not follow it.
    let done = worktree.check_out(&revision(&repository, "main"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{done:?}");
    if let Err(error) = done {
        assert!(error.to_string().contains("leads out of the checkout"), "{error:#}");
    } else {
        assert_eq!(read(&worktree.path().join("vendor/inner/lib.c")), "inner\n");
    }
}

#[test]
fn a_submodule_whose_git_file_a_test_changed_is_checked_out_anew() {
    let (user, _library) = package_with_two_versions_of_a_library();
    let other = self::library("unrelated\n");
    other.write("lib.c", "not committed\n");
    let before = every_byte(other.root(), |_| false);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let check_out = |spec: &str| {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
        read(&worktree.path().join("lib/lib.c"))
    };
    assert_eq!(check_out("main"), "two\n");
    let link = worktree.path().join("lib/.git");
    std::fs::write(&link, format!("gitdir: {}\n", other.path(".git").display())).unwrap();
    assert_eq!(check_out("main~1"), "one\n");
    std::fs::remove_file(&link).unwrap();
    assert_eq!(check_out("main"), "two\n");
    std::fs::remove_file(&link).unwrap();
    succeed(isolated("git").args(["init", "--quiet"]).current_dir(link.parent().unwrap()));
    assert_eq!(check_out("main~1"), "one\n");
    let entry = user.path(".git/worktrees/worktree/modules/lib");
    std::fs::write(entry.join("index.lock"), "").unwrap();
    assert_eq!(check_out("main"), "two\n", "a killed git left its lock");
    assert_same_bytes(&before, &every_byte(other.root(), |_| false));
}

#[test]
fn the_recorded_commit_is_checked_out_however_the_user_updates_submodules() {
    let (user, _library) = package_with_two_versions_of_a_library();
    let ran = user.beside("ran");
    for way in ["merge", "rebase", &format!("!touch {}", ran.display())] {
        user.git(["config", "submodule.lib.update", way]);
        let repository = user.open().with_environment(ALLOW_FILE);
        let cache = cache(&user, &repository);
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        for (spec, content) in [("main", "two\n"), ("main~1", "one\n")] {
            worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!(read(&worktree.path().join("lib/lib.c")), content, "{way}");
        }
    }
    assert!(!ran.exists());
    user.git(["config", "submodule.lib.update", "none"]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = Cache::open(&utf8(&user.beside("another cache")), &repository).unwrap();
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(!worktree.path().join("lib/lib.c").exists(), "the user does not want it");
}

#[test]
fn gits_rules_for_urls_of_submodules_are_those_of_the_user() {
    let ran = tempfile::tempdir().unwrap();
    let ran = ran.path().join("ran");
    let other = library("inner\n");
    let urls = [
        (format!("ext::sh -c touch% {}", ran.display()), "transport 'ext' not allowed"),
        (other.url(), "transport 'file' not allowed"),
        (format!("--upload-pack=touch {}", ran.display()), ""),
    ];
    for (url, reason) in urls {
        let mut user = package();
        with_gitmodules(&mut user, &format!("[submodule \"lib\"]\n\tpath = lib\n\turl = {url}\n"));
        let entry = format!("160000,{},lib", other.git(["rev-parse", "HEAD"]));
        user.git(["update-index", "--add", "--cacheinfo", &entry]);
        user.git(["commit", "--quiet", "--message", "a submodule"]);
        let repository = user.open();
        let cache = cache(&user, &repository);
        let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
        worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
        let missing = worktree.missing_submodules().of_revision("main");
        assert!(missing[0].reason.contains(reason), "{missing:?}");
        assert!(!ran.exists(), "{url} ran");
    }
}

#[test]
fn a_submodule_that_cannot_be_fetched_is_left_out_and_told_once() {
    let (near, mut far) = (library("near\n"), library("far\n"));
    let mut source = package();
    add_submodule(&source, "vendor/near", &near);
    add_submodule(&source, "vendor/far", &far);
    source.commit("both");
    let user = TestRepository::clone_of(&source, &[]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    let check_out = |worktree: &Worktree<'_>, spec: &str| {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
    };
    check_out(&worktree, "main");
    let lib = |name: &str| worktree.path().join("vendor").join(name).join("lib.c");
    assert_eq!((read(&lib("near")), read(&lib("far"))), ("near\n".to_owned(), "far\n".to_owned()));

    // The other commit of the submodule cannot be had, so the files of this one must not stay.
    far.write("lib.c", "moved\n");
    let moved = far.commit("moved");
    source.git(["update-index", "--cacheinfo", &format!("160000,{moved},vendor/far")]);
    source.git(["commit", "--quiet", "--message", "moved"]);
    user.git(["pull", "--quiet", "--no-recurse-submodules"]);
    let away = far.beside("away");
    std::fs::rename(far.root(), &away).unwrap();
    check_out(&worktree, "main");
    assert_eq!(read(&lib("near")), "near\n");
    assert_eq!(std::fs::read_dir(lib("far").parent().unwrap()).unwrap().count(), 0);
    let new = worktree.missing_submodules().take_new();
    assert_eq!((new.len(), new[0].path.as_str()), (1, "vendor/far"));
    assert!(!new[0].reason.is_empty() && worktree.missing_submodules().take_new().is_empty());

    // All checkouts of a comparison have the same files, also if the remote comes back.
    std::fs::rename(&away, far.root()).unwrap();
    check_out(&worktree, "main");
    assert!(!lib("far").exists());
    assert_eq!(worktree.status().unwrap(), b"", "git sees a submodule that is not initialised");
    check_out(&Worktree::open(&cache, &repository, &[]).unwrap(), "main");
    assert_eq!(read(&lib("far")), "moved\n", "the next comparison tries again");
}

#[test]
fn an_excluded_submodule_is_neither_fetched_nor_kept() {
    let (near, far) = (library("near\n"), library("far\n"));
    let mut source = package();
    add_submodule(&source, "vendor/near", &near);
    add_submodule(&source, "vendor/far", &far);
    source.commit("both");
    let user = TestRepository::clone_of(&source, &[]);
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let main = revision(&repository, "main");
    let check_out = |exclude: &[&str]| {
        let exclude: Vec<String> = exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
        let worktree = Worktree::open(&cache, &repository, &exclude).unwrap();
        worktree.check_out(&main).unwrap_or_else(|error| panic!("{exclude:?}: {error:#}"));
        assert_eq!(worktree.missing_submodules().of_revision("main"), []);
        assert_eq!(worktree.status().unwrap(), b"", "{exclude:?}");
        ["near", "far"].map(|name| worktree.path().join("vendor").join(name).join("lib.c").exists())
    };
    assert_eq!(check_out(&[]), [true, true]);
    std::fs::rename(far.root(), far.beside("away")).unwrap();
    for pattern in ["vendor/far", "vendor/far/", "/vendor/far/", "far"] {
        assert_eq!(check_out(&[pattern]), [true, false], "{pattern}");
    }
    assert_eq!(check_out(&["vendor/"]), [false, false]);
}

#[test]
fn submodules_whose_names_exclude_each_other_take_turns() {
    let [one, two] = ["one\n", "two\n"].map(library);
    let mut user = package();
    for (name, from) in [("libs/x", &one), ("libs", &two)] {
        let url = from.url();
        user.git(["checkout", "--quiet", "--detach", "main"]);
        let add =
            ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name", name, &url, "lib"];
        user.git(add);
        user.commit(name);
        user.git(["branch", &name.replace('/', "-")]);
        user.git(["rm", "--quiet", "lib"]);
        std::fs::remove_dir_all(user.path(".git/modules")).unwrap();
        user.git(["reset", "--quiet", "--hard"]);
    }
    let repository = user.open().with_environment(ALLOW_FILE);
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    for (spec, content) in [("libs-x", "one\n"), ("libs", "two\n"), ("libs-x", "one\n")] {
        worktree.check_out(&revision(&repository, spec)).unwrap_or_else(|error| panic!("{spec}: {error:#}"));
        assert_eq!(read(&worktree.path().join("lib/lib.c")), content);
    }
}

#[test]
fn the_files_of_a_submodule_that_moved_are_known_or_said_to_be_unknown() {
    let (user, mut library) = package_with_two_versions_of_a_library();
    library.write("new.c", "three\n");
    library.git(["rm", "--quiet", "lib.c"]);
    let third = library.commit("three");
    let repository = user.open().with_environment(ALLOW_FILE);
    let commit = |spec: &str| user.git(["rev-parse", spec]);
    let [none, old, new] = ["main~2", "main~1", "main"].map(commit);
    let nowhere = utf8(&user.beside("nowhere"));
    let changed = |checkout, old: &str, new: &str| {
        ChangedSubmodules::between(&repository, checkout, old, new)
            .unwrap_or_else(|error| panic!("{error:#}"))
    };
    let path = || Some("lib/lib.c".to_owned());
    let both = changed(&nowhere, &old, &new);
    assert_eq!(both.files, [ChangedFile { old: path(), new: path() }]);
    let texts = [0, 1].map(|side| both.text(&repository, side, "lib/lib.c").unwrap());
    assert_eq!(texts, ["one\n", "two\n"].map(Vec::from));
    let added = changed(&nowhere, &none, &new);
    assert_eq!(added.files, [ChangedFile { old: None, new: path() }]);

    // The user's clone lacks this commit, and the checkout fetches it.
    user.git(["update-index", "--cacheinfo", &format!("160000,{third},lib")]);
    user.git(["commit", "--quiet", "--message", "lib moved again"]);
    let newest = commit("main");
    let unknown = changed(&nowhere, &new, &newest);
    assert_eq!((unknown.files.len(), &*unknown.unknown), (0, &["lib/".to_owned()][..]));
    let cache = cache(&user, &repository);
    let worktree = Worktree::open(&cache, &repository, &[]).unwrap();
    worktree.check_out(&revision(&repository, "main")).unwrap_or_else(|error| panic!("{error:#}"));
    let checkout = utf8(&user.path(".git/worktrees/worktree"));
    let fetched = changed(&checkout, &new, &newest);
    let fresh = ChangedFile { old: None, new: Some("lib/new.c".to_owned()) };
    assert_eq!(fetched.files, [ChangedFile { old: path(), new: None }, fresh]);
    assert!(fetched.unknown.is_empty());
}
