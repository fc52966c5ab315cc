//! Nothing outside the checkout is written, whatever a revision, a test or the user's settings do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use crate::support::{TestRepository, assert_same_bytes, every_byte, isolated, succeed};
use crate::worktree::{Setting, modified, package, read, users_bytes, utf8};
use memprof_build::checkout::cache::Cache;
use memprof_build::checkout::injected_files::InjectedFiles;
use memprof_build::checkout::kept;
use memprof_support::advice::help;
use memprof_support::file_lock::{Lock, LockFile, WhenHeld};

#[test]
fn a_repository_inside_the_cache_folder_is_not_taken_for_the_tools_own_checkout() {
    let user = package();
    let error = Cache::open(&utf8(user.root().parent().unwrap()), &user.open()).unwrap_err();
    assert!(error.to_string().contains("is inside the cache folder"), "{error}");
    let help = help(&error).unwrap();
    assert!(
        help.contains("export CARGO_MEMPROF_HOME=/") && help.ends_with("or move the repository"),
        "{help}"
    );
}

#[test]
fn a_cache_folder_in_any_git_repository_is_refused_with_a_way_out() {
    let user = package();
    let [other, bare] = ["other", "bare.git"].map(|name| user.beside(name));
    user.git(["init", "--quiet", &other.display().to_string()]);
    user.git(["init", "--quiet", "--bare", &bare.display().to_string()]);
    std::fs::create_dir(user.beside("linked")).unwrap();
    std::fs::write(user.beside("linked/.git"), "gitdir: /somewhere/else\n").unwrap();
    for folder in [other.join("deep/cache"), bare.join("cache"), user.beside("linked/cache")] {
        let error = Cache::open(&utf8(&folder), &user.open()).unwrap_err();
        assert!(error.to_string().contains("is inside the git repository"), "{error}");
        assert!(help(&error).unwrap().contains("export CARGO_MEMPROF_HOME=/"), "{error}");
        assert!(!folder.exists(), "nothing is written there");
    }
    // Git passes over a `.git` without content, and so do we.
    std::fs::create_dir_all(user.beside("empty/.git")).unwrap();
    Cache::open(&utf8(&user.beside("empty/cache")), &user.open()).unwrap();
}

#[test]
fn a_cache_folder_that_cannot_be_written_is_named_with_the_variable() {
    let user = package();
    std::fs::write(user.beside("file"), "").unwrap();
    let error = Cache::open(&utf8(&user.beside("file/cache")), &user.open()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("file/cache cannot be written: "), "{message}");
    assert!(help(&error).unwrap().contains("export CARGO_MEMPROF_HOME="), "{message}");
}

/// What a test may do to the checkout's `.git`.
type Damage<'a> = &'a dyn Fn(&Path);

/// Makes a folder a repository with a file that its owner has not committed.
fn make_decoy(folder: &Path) {
    let git = |arguments: &[&str]| {
        succeed(isolated("git").current_dir(folder).args(arguments));
    };
    git(&["init", "--quiet"]);
    std::fs::create_dir_all(folder.join("src")).unwrap();
    std::fs::write(folder.join("src/lib.rs"), "committed\n").unwrap();
    git(&["add", "src"]);
    git(&["commit", "--quiet", "--message", "decoy"]);
    std::fs::write(folder.join("src/lib.rs"), "not committed\n").unwrap();
    std::fs::write(folder.join("precious"), "not even added\n").unwrap();
}

#[test]
fn a_checkout_that_lost_its_git_file_never_writes_to_a_repository_around_it() {
    let user = package();
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    let around = user.beside("cache");
    make_decoy(&around);
    let ours = setting.cache.folder().as_std_path().to_owned();
    let own_folder = Path::new(ours.file_name().unwrap()).to_owned();
    // Reading the status refreshes the index.
    let decoy = || every_byte(&around, |path| path == own_folder || path == Path::new("shim"));
    let before = decoy();
    let users = users_bytes(user.root());
    let damage: [(&str, Damage<'_>); 4] = [
        ("removed", &|link| std::fs::remove_file(link).unwrap()),
        ("pointed elsewhere", &|link| {
            let decoy = around.join(".git");
            std::fs::write(link, format!("gitdir: {}\n", decoy.display())).unwrap();
        }),
        ("replaced by a link", &|link| {
            std::fs::remove_file(link).unwrap();
            std::os::unix::fs::symlink(around.join(".git"), link).unwrap();
        }),
        ("replaced by a repository", &|link| {
            std::fs::remove_file(link).unwrap();
            succeed(isolated("git").args(["init", "--quiet"]).current_dir(link.parent().unwrap()));
        }),
    ];
    let worktree = setting.open();
    let main = setting.revision("main");
    let link = path.join(".git");
    let good = read(&link);
    for (what, damage) in damage {
        damage(link.as_std_path());
        std::fs::write(path.join("src/lib.rs"), "changed by a test\n").unwrap();
        let status = String::from_utf8(worktree.status().unwrap()).unwrap();
        assert!(status.contains("src/lib.rs"), "{what}: {status}");
        assert_eq!(read(&link), good, "{what}");
        damage(link.as_std_path());
        worktree.check_out(&main).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!(read(&path.join("src/lib.rs")), "pub fn one() -> u32 { 1 }\n", "{what}");
        assert_eq!(read(&link), good, "{what}");
        assert_same_bytes(&before, &decoy());
        // Whole runs begin with opening the checkout.
        damage(link.as_std_path());
        setting.open().check_out(&main).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_same_bytes(&before, &decoy());
        assert_same_bytes(&users, &users_bytes(user.root()));
    }
}

#[test]
fn a_checkout_folder_that_a_test_replaced_by_a_link_is_not_followed() {
    let user = package();
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    let worktree = setting.open();
    let elsewhere = user.beside("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for open_again in [false, true] {
        std::fs::rename(&path, user.beside(if open_again { "aside-1" } else { "aside-0" })).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        if open_again {
            setting.check_out("main");
        } else {
            worktree.check_out(&setting.revision("main")).unwrap();
        }
        assert!(path.join("src/lib.rs").exists() && !path.is_symlink());
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}

#[test]
fn a_checkout_whose_entry_in_the_repository_is_gone_gets_a_new_one_unless_the_place_is_the_users() {
    let user = package();
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    let worktree = setting.open();
    std::fs::remove_dir_all(user.path(".git/worktrees")).unwrap();
    std::fs::write(path.join("src/same.rs"), "changed").unwrap();
    worktree.check_out(&setting.revision("main")).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&path.join("src/same.rs")), "// the same in every revision\n");
    std::fs::remove_dir_all(user.path(".git/worktrees")).unwrap();
    user.git(["worktree", "add", "--quiet", "--detach", "../other/worktree"]);
    let before = every_byte(&user.path(".git/worktrees"), |_| false);
    let error = worktree.check_out(&setting.revision("main")).unwrap_err();
    assert!(error.to_string().contains("lost its entry in the repository"), "{error}");
    assert!(help(&error).unwrap().contains("run the same command again"), "{error}");
    assert_same_bytes(&before, &every_byte(&user.path(".git/worktrees"), |_| false));
    setting.check_out("main");
}

fn make_fifo(path: impl AsRef<Path>) {
    let _ = std::fs::remove_file(&path);
    succeed(std::process::Command::new("mkfifo").arg(path.as_ref()));
}

#[test]
fn whatever_a_test_does_to_the_checkout_and_its_entry_the_next_checkout_is_whole() {
    let mut user = package();
    user.write("src/lib.rs", "pub fn one() -> u32 { 2 }\n");
    user.write(".gitignore", "ignored/\n");
    user.write("ignored/tracked.rs", "// first\n");
    user.git(["add", "--force", "ignored/tracked.rs"]);
    user.commit("second");
    let setting = Setting::new(&user);
    let worktree = setting.open();
    let path = worktree.path().to_owned();
    let revisions = ["main", "main~1"].map(|spec| setting.revision(spec));
    worktree.check_out(&revisions[0]).unwrap();
    let entry = user.path(".git/worktrees/worktree");
    let outside = user.beside("outside");
    std::fs::create_dir(&outside).unwrap();
    let link = |name: &str| {
        let _ = std::fs::remove_file(entry.join(name));
        std::os::unix::fs::symlink(outside.join("made"), entry.join(name)).unwrap();
    };
    let write = |name: &str, text: &str| std::fs::write(entry.join(name), text).unwrap();
    let git = |arguments: &[&str]| {
        succeed(isolated("git").args(arguments).current_dir(&path));
    };
    let deeds: &[(&str, &dyn Fn())] = &[
        ("FIFO for .gitignore", &|| make_fifo(path.join(".gitignore"))),
        ("FIFO for .gitattributes", &|| make_fifo(path.join("src/.gitattributes"))),
        ("FIFO for .gitmodules", &|| make_fifo(path.join(".gitmodules"))),
        ("FIFO for a source", &|| make_fifo(path.join("src/lib.rs"))),
        ("FIFO where git ignores it", &|| make_fifo(path.join("ignored/x.rs"))),
        ("FIFO for .git", &|| make_fifo(path.join(".git"))),
        ("a path without end", &|| {
            let script = "for i in $(seq 400); do mkdir aaaaaaaaaaaaaaaaaaa && cd aaaaaaaaaaaaaaaaaaa; done";
            succeed(std::process::Command::new("bash").args(["-c", script]).current_dir(path.join("src")));
        }),
        ("a damaged index", &|| write("index", "damaged")),
        ("FIFO for the index", &|| make_fifo(entry.join("index"))),
        ("no index", &|| std::fs::remove_file(entry.join("index")).unwrap()),
        ("a damaged HEAD", &|| write("HEAD", "damaged")),
        ("a HEAD that is no commit", &|| write("HEAD", &"0".repeat(40))),
        ("FIFO for HEAD", &|| make_fifo(entry.join("HEAD"))),
        ("another common folder", &|| write("commondir", "/nowhere\n")),
        ("FIFO for the common folder", &|| make_fifo(entry.join("commondir"))),
        ("another folder", &|| write("gitdir", "/nowhere/.git\n")),
        ("FIFO for patterns", &|| make_fifo(entry.join("info/sparse-checkout"))),
        ("link for patterns", &|| link("info/sparse-checkout")),
        ("link for the mark", &|| link("cargo-memprof")),
        ("FIFO for the record", &|| make_fifo(entry.join("cargo-memprof-conversion"))),
        ("FIFO for settings", &|| make_fifo(entry.join("config.worktree"))),
        ("link for a folder", &|| {
            std::fs::remove_dir_all(entry.join("info")).unwrap();
            link("info");
        }),
        ("sparse-checkout", &|| git(&["sparse-checkout", "set", "--no-cone", "/ignored/"])),
        ("hidden changes", &|| {
            git(&["update-index", "--assume-unchanged", "src/lib.rs"]);
            std::fs::write(path.join("src/lib.rs"), "hidden").unwrap();
        }),
        ("FIFO for the injected files", &|| make_fifo(setting.cache.injected())),
    ];
    for (what, deed) in deeds {
        for again in [false, true] {
            deed();
            let open_again = again.then(|| setting.open());
            let worktree = open_again.as_ref().unwrap_or(&worktree);
            for revision in [&revisions[1], &revisions[0]] {
                worktree.check_out(revision).unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(worktree.status().unwrap(), b"", "{what}");
                let is_first = revision == &revisions[0];
                assert_eq!(read(&path.join("src/lib.rs")).contains("{ 2 }"), is_first, "{what}");
                assert_eq!(path.join("ignored/tracked.rs").exists(), is_first, "{what}");
                assert!(path.join("src/same.rs").exists() && path.join("Cargo.toml").exists(), "{what}");
            }
        }
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "a link was followed");
}

#[test]
fn links_in_the_cache_are_not_followed() {
    let user = package();
    let setting = Setting::new(&user);
    setting.check_out("main");
    let victim = user.beside("victim");
    std::fs::write(&victim, "precious").unwrap();
    let folder = setting.cache.folder().to_owned();
    for name in ["clock", "repository", "lock", "injected.json", "injected.partial"] {
        for thing in ["link", "fifo"] {
            let path = folder.join(name);
            let _ = std::fs::remove_file(&path);
            match thing {
                "link" => std::os::unix::fs::symlink(&victim, &path).unwrap(),
                _ => make_fifo(&path),
            }
            std::fs::write(setting.cache.sources(), "{}").unwrap();
            let setting = Setting::new(&user);
            let lock = LockFile::of_folder(setting.cache.lock());
            let locked = Lock::acquire(&lock, WhenHeld::Fail, &AtomicBool::new(false), &|_| ());
            drop(locked.unwrap_or_else(|error| panic!("{name}, {thing}: {error:#}")));
            setting.check_out("main");
            InjectedFiles::load(&setting.cache.injected()).unwrap().save().unwrap();
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious", "{name}, {thing}");
        }
    }
    std::fs::rename(&folder, user.beside("moved")).unwrap();
    std::os::unix::fs::symlink(user.beside("moved"), &folder).unwrap();
    let error = Cache::open(&utf8(&user.beside("cache")), &setting.repository).unwrap_err();
    assert!(error.to_string().contains("is a symlink to"), "{error}");
    assert!(help(&error).unwrap().contains("rm "), "{error}");
}

#[test]
fn the_entry_of_the_users_own_missing_worktree_is_not_taken_over() {
    let user = package();
    user.git(["worktree", "add", "--quiet", "--detach", "../on-another-disk"]);
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    std::fs::rename(user.beside("on-another-disk"), user.beside("not-mounted")).unwrap();
    let entry = user.path(".git/worktrees/on-another-disk");
    let before = every_byte(&entry, |_| false);
    // The only trace of our own entry is lost, and a test has written the user's into the checkout.
    std::fs::write(path.join(".git"), format!("gitdir: {}\n", entry.display())).unwrap();
    std::fs::remove_dir_all(user.path(".git/worktrees/worktree")).unwrap();
    setting.check_out("main");
    assert_same_bytes(&before, &every_byte(&entry, |_| false));
}

#[test]
fn variables_of_a_git_hook_do_not_lead_elsewhere() {
    let mut user = package();
    user.write("src/lib.rs", "// second\n");
    user.commit("second");
    let other = package();
    let git_directory = other.path(".git").display().to_string();
    let index = other.path(".git/index").display().to_string();
    let before = every_byte(other.root(), |_| false);
    let setting = Setting::new(&user);
    setting.check_out("main");
    let mut run = user.memprof();
    run.env("GIT_DIR", &git_directory).env("GIT_INDEX_FILE", &index).env("GIT_WORK_TREE", other.root());
    run.args(["run", "--refs", "main,main~1", "--dry-run"]).assert().success();
    assert_same_bytes(&before, &every_byte(other.root(), |_| false));
}

#[test]
fn a_revision_outlives_a_rewritten_branch_and_garbage_collection() {
    let mut user = package();
    user.write("src/lib.rs", "// rewritten later\n");
    user.commit("second");
    let setting = Setting::new(&user);
    let worktree = setting.open();
    let second = setting.revision("main");
    kept::keep(&setting.repository, std::slice::from_ref(&second)).unwrap();
    user.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    let collect = || {
        user.git(["reflog", "expire", "--expire=now", "--all"]);
        user.git(["gc", "--quiet", "--prune=now"]);
    };
    collect();
    worktree.check_out(&second).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&worktree.path().join("src/lib.rs")), "// rewritten later\n");
    // The next run keeps its own revisions only.
    let first = setting.revision("main");
    worktree.check_out(&first).unwrap();
    kept::forget(&setting.repository).unwrap();
    kept::keep(&setting.repository, &[first.clone(), first]).unwrap();
    collect();
    assert!(worktree.check_out(&second).is_err());
}

#[test]
fn nothing_of_the_users_settings_leads_elsewhere_or_runs_a_revisions_programs() {
    let mut user = package();
    for path in ["hooks/post-checkout", "hooks/post-index-change", "fsmonitor"] {
        user.write(path, format!("#!/bin/sh\ntouch '{}'\n", user.beside("ran").display()));
        std::fs::set_permissions(user.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    user.write("gitconfig", "[core]\n\tfsmonitor = ./fsmonitor\n\thooksPath = hooks\n");
    user.write("src/lib.rs", "// second\n");
    user.commit("second");
    let setting = Setting::new(&user);
    for (name, value) in [
        ("core.hooksPath", "hooks"),
        ("core.fsmonitor", "./fsmonitor"),
        ("include.path", "../gitconfig"),
        ("core.ignoreStat", "true"),
        ("core.trustCtime", "false"),
    ] {
        user.git(["config", name, value]);
    }
    let path = setting.check_out("main");
    setting.check_out("main~1");
    assert_eq!(read(&path.join("src/lib.rs")), "pub fn one() -> u32 { 1 }\n");
    std::fs::write(path.join("src/lib.rs"), "pub fn one() -> u32 { 9 }\n").unwrap();
    setting.check_out("main~1");
    assert_eq!(read(&path.join("src/lib.rs")), "pub fn one() -> u32 { 1 }\n", "a changed file is seen");
    assert!(!user.beside("ran").exists(), "a program of the revision ran");

    // A work tree that the configuration names, as some keep their settings under version control.
    let elsewhere = user.beside("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let main = setting.revision("main");
    user.git(["config", "core.worktree", &elsewhere.display().to_string()]);
    let setting = Setting::new(&user);
    assert_eq!(setting.repository.root(), utf8(&elsewhere));
    setting.open().check_out(&main).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn filters_are_the_users_and_a_change_of_them_reaches_files_that_are_checked_out() {
    let mut user = package();
    user.write(".gitattributes", "*.data filter=case\n");
    user.write("a.data", "text\n");
    user.commit("data");
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    assert_eq!(read(&path.join("a.data")), "text\n", "there is no such filter yet");
    let time = modified(&path.join("a.data"));
    setting.check_out("main");
    assert_eq!(modified(&path.join("a.data")), time);
    user.git(["config", "filter.case.smudge", "tr a-z A-Z"]);
    user.git(["config", "filter.case.clean", "tr A-Z a-z"]);
    setting.check_out("main");
    assert_eq!(read(&path.join("a.data")), "TEXT\n");

    user.git(["config", "filter.case.smudge", "false"]);
    let check_out = || setting.open().check_out(&setting.revision("main"));
    let error = check_out().unwrap_err();
    assert!(error.to_string().contains("without a filter that failed"), "{error:#}");
    assert!(help(&error).unwrap().contains("git config --show-origin"), "{error:#}");
    assert!(check_out().is_err(), "git takes the file for finished, and it is not");
    user.git(["config", "filter.case.required", "true"]);
    let error = format!("{:#}", check_out().unwrap_err());
    assert!(error.contains("a.data: smudge filter case failed"), "{error}");
    user.git(["config", "filter.case.smudge", "tr a-z A-Z"]);
    check_out().unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(read(&path.join("a.data")), "TEXT\n");
}

#[test]
fn a_revisions_attributes_decide_its_files_in_every_order() {
    let mut user = package();
    user.write(".gitignore", "ignored/\n");
    user.write("data.txt", "one\ntwo\n");
    user.write("ignored/data.txt", "one\ntwo\n");
    user.write(".gitattributes", "data.txt text eol=lf\n");
    user.git(["add", "--force", "ignored/data.txt"]);
    user.commit("lf");
    user.write(".gitattributes", "data.txt text eol=crlf\n");
    user.commit("crlf");
    user.git(["rm", "--quiet", ".gitattributes"]);
    user.commit("neither");
    let setting = Setting::new(&user);
    let worktree = setting.open();
    let path = worktree.path().to_owned();
    let revisions = ["main~2", "main~1", "main"].map(|spec| setting.revision(spec));
    for order in [0, 1, 2, 0, 2, 1, 0] {
        worktree.check_out(&revisions[order]).unwrap_or_else(|error| panic!("{error:#}"));
        let expected = if order == 1 { "one\r\ntwo\r\n" } else { "one\ntwo\n" };
        for file in ["data.txt", "ignored/data.txt"] {
            assert_eq!(read(&path.join(file)), expected, "{file} of {}", revisions[order].name);
        }
        // Left by a build, where git's cleaning does not look.
        std::fs::write(path.join("ignored/.gitattributes"), "data.txt text eol=crlf\n").unwrap();
    }
    let time = modified(&path.join("data.txt"));
    worktree.check_out(&revisions[0]).unwrap();
    assert_eq!(modified(&path.join("data.txt")), time, "equal attributes write nothing again");
}

#[test]
fn a_filter_never_runs_a_program_that_a_revision_changes() {
    let mut user = package();
    user.write(".gitattributes", "*.data filter=own\n");
    user.write("a.data", "text\n");
    user.write("tools/filter.sh", "tr a-z A-Z\n");
    user.commit("a filter");
    let script = format!("touch '{}'; cat\n", user.beside("ran").display());
    user.git(["switch", "--quiet", "--create", "stranger"]);
    user.write("tools/filter.sh", script);
    user.commit("another filter");
    user.git(["switch", "--quiet", "main"]);
    user.git(["config", "filter.own.smudge", "sh ./tools/filter.sh"]);
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    assert_eq!(read(&path.join("a.data")), "TEXT\n");
    let error = setting.open().check_out(&setting.revision("stranger")).unwrap_err();
    assert!(error.to_string().contains("stranger changes tools/filter.sh"), "{error:#}");
    let own = user.path("tools/filter.sh").display().to_string();
    assert!(help(&error).unwrap().contains(&own), "{error:#}");
    for elsewhere in ["cd tools && sh ./filter.sh", "sh -c 'cd ./tools; exec sh filter.sh'"] {
        user.git(["config", "filter.own.smudge", elsewhere]);
        let error = setting.open().check_out(&setting.revision("stranger")).unwrap_err();
        assert!(error.to_string().contains("stranger changes tools, which"), "{elsewhere}: {error:#}");
        setting.check_out("main");
    }
    user.git(["config", "filter.own.smudge", &format!("sh {own}")]);
    setting.check_out("stranger");
    assert_eq!(read(&path.join("a.data")), "TEXT\n");
    assert!(!user.beside("ran").exists(), "the revision's program ran");
}

#[test]
fn builds_from_before_the_clock_was_set_back_are_forgotten() {
    let user = package();
    let setting = Setting::new(&user);
    let sources = setting.cache.sources();
    let targets = [setting.cache.target(), setting.cache.target_of_traced("x")];
    let build = |time: SystemTime| {
        for target in &targets {
            std::fs::create_dir_all(target.join("debug")).unwrap();
        }
        std::fs::write(&sources, "{}").unwrap();
        std::fs::File::options().write(true).open(&sources).unwrap().set_modified(time).unwrap();
        setting.open();
    };
    let hour = Duration::from_hours(1);
    build(SystemTime::now() - hour);
    assert!(sources.exists() && targets.iter().all(|target| target.exists()));
    build(SystemTime::now() + hour);
    assert!(!sources.exists() && !targets.iter().any(|target| target.exists()));
}

#[test]
fn a_bare_repository_is_checked_out_beside_it() {
    let source = package();
    let user = TestRepository::clone_of(&source, &["--bare"]);
    let before = every_byte(user.root(), |path| {
        ["objects", "refs/memprof", "worktrees"].iter().any(|ours| path == Path::new(ours))
    });
    let setting = Setting::new(&user);
    let path = setting.check_out("main");
    assert_eq!(read(&path.join("src/lib.rs")), "pub fn one() -> u32 { 1 }\n");
    setting.clean(&[]);
    assert_same_bytes(&before, &every_byte(user.root(), |path| path == Path::new("objects")));
}
