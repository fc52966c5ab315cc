//! Unwind tables, functions and lines of executables, against gimli's own look-up and against what
//! the programs under `fixtures/symbols` are known to do.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, UnwindContext, UnwindSection,
    X86_64,
};
use memprof_judge::symbols::code_place::{Paths, Place};
use memprof_judge::symbols::kept_table;
use memprof_judge::symbols::resolver::{Detail, Frame, Resolver};
use memprof_judge::symbols::unwind_rule::{Base, Rule, Step};
use memprof_judge::symbols::unwind_table::{self, Reason, UnwindTable};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::laboratory::{once, scratch, succeed, text, usual_rustc};
use crate::skips::skip;

fn sources() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/symbols")
}

fn scratch_path(name: &str) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(scratch(name)).unwrap()
}

/// A program under `fixtures/symbols`, compiled once with these flags.
fn program(name: &str, flags: &[&str]) -> Utf8PathBuf {
    let executable = once(&format!("symbols {name} {flags:?}"), |executable| {
        let mut command = usual_rustc();
        command.args(["--edition", "2021", "-C", "link-arg=-Wl,--build-id", "-D", "warnings"]).args(flags);
        succeed(command.arg(sources().join(format!("{name}.rs"))).arg("-o").arg(executable));
    });
    Utf8PathBuf::from_path_buf(executable).unwrap()
}

fn table(executable: &Utf8Path) -> UnwindTable {
    unwind_table::make(executable).unwrap().unwrap()
}

/// The rule for a row of gimli's table, written differently from the one in `src`.
fn expected(row: &gimli::UnwindTableRow<usize>) -> Rule {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RSP => {
            Some((Base::Rsp, *offset))
        }
        CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RBP => {
            Some((Base::Rbp, *offset))
        }
        _ => None,
    };
    match (row.register(X86_64::RA), cfa, row.register(X86_64::RBP)) {
        (Some(RegisterRule::Undefined), ..) => Rule::OUTERMOST,
        (Some(RegisterRule::Offset(-8)), Some((base, offset)), None) => Rule::caller(base, offset, None),
        (Some(RegisterRule::Offset(-8)), Some((base, offset)), Some(RegisterRule::Offset(saved))) => {
            Rule::caller(base, offset, Some(saved))
        }
        _ => Rule::INEXPRESSIBLE,
    }
}

/// Compares the table with what an unwinder finds through `.eh_frame_hdr`, at up to `most` of the
/// places where a rule begins, just before them, and between them. Returns how many it compared.
fn assert_like_unwinder(executable: &Utf8Path, most: usize) -> usize {
    let table = table(executable);
    let bytes = fs_err::read(executable).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = |name| {
        let section = file.section_by_name(name).unwrap();
        (section.address(), section.data().unwrap())
    };
    let (header_at, header) = section(".eh_frame_hdr");
    let (frames_at, frames) = section(".eh_frame");
    let bases = BaseAddresses::default().set_eh_frame_hdr(header_at).set_eh_frame(frames_at);
    let header = EhFrameHdr::new(header, LittleEndian).parse(&bases, 8).unwrap();
    let (header, frames) = (header.table().unwrap(), EhFrame::new(frames, LittleEndian));
    let mut context = UnwindContext::new();
    let rows: Vec<u64> = table.rows().map(|(address, _)| address).collect();
    let step = rows.len().div_ceil(most).max(1);
    let mut kinds = HashMap::new();
    for index in (0..rows.len() - 1).step_by(step) {
        let (at, next) = (rows[index], rows[index + 1]);
        for address in [at.saturating_sub(1), at, at.midpoint(next), next - 1] {
            let cie = EhFrame::cie_from_offset;
            let row = header.unwind_info_for_address(&frames, &bases, &mut context, address, cie);
            let rule = row.as_ref().map_or(Rule::UNDESCRIBED, |row| expected(row));
            assert_eq!(table.rule_at(address), rule, "{executable} at {address:#x}: {row:?}");
            *kinds.entry(std::mem::discriminant(&rule.step())).or_insert(0) += 1;
        }
    }
    assert!(kinds.len() > 1, "rules and gaps: {kinds:?}");
    kinds.into_values().sum()
}

#[test]
fn the_table_says_what_an_unwinder_finds() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skip("unwind tables are for x86-64 Linux");
    }
    for flags in
        [&[][..], &["-C", "opt-level=3", "-C", "lto=fat", "-C", "panic=abort"], &["-C", "opt-level=s"]]
    {
        let compared = assert_like_unwinder(&program("stacks", flags), usize::MAX);
        assert!(compared > 1_000, "{flags:?}: {compared}");
    }
    let own = Utf8PathBuf::from_path_buf(std::env::current_exe().unwrap()).unwrap();
    assert_like_unwinder(&own, 5_000);
}

/// The addresses of symbols.
fn symbols(executable: &Utf8Path) -> HashMap<String, u64> {
    let bytes = fs_err::read(executable).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.symbols().map(|symbol| (symbol.name().unwrap().to_owned(), symbol.address())).collect()
}

#[test]
fn unusual_descriptions_are_left_to_the_unwinder() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skip("unwind tables are for x86-64 Linux");
    }
    let executable = program("frames", &[]);
    let (table, symbols) = (table(&executable), symbols(&executable));
    let rule = |name: &str, offset: u64| table.rule_at(symbols[name] + offset);
    // push rbp: 1 byte; mov rbp, rsp: 3; nop, pop rbp, ret: 1 each.
    let outside = Rule::caller(Base::Rsp, 8, None);
    let pushed = Rule::caller(Base::Rsp, 16, Some(-16));
    let inside = Rule::caller(Base::Rbp, 16, Some(-16));
    let rules: Vec<Rule> = (0..8).map(|offset| rule("usual", offset)).collect();
    assert_eq!(rules, [outside, pushed, pushed, pushed, inside, inside, outside, Rule::UNDESCRIBED]);
    assert_eq!(rule("no_caller", 0), Rule::OUTERMOST);
    for name in [
        "by_expression",
        "far_rbp",
        "odd_cfa",
        "other_register",
        "moved_return",
        "signal",
        "rbp_by_expression",
        "rbp_in_register",
        "own_rsp",
    ] {
        assert_eq!(rule(name, 0), Rule::INEXPRESSIBLE, "{name}");
    }
    assert_eq!(rule("rbp_undefined", 0), outside, "the caller's rbp is not saved");
    assert_eq!(rule("empty", 0), Rule::UNDESCRIBED);
    assert_eq!(rule("unwind_end", 0), Rule::UNDESCRIBED);
    let (lowest, end) = table.covered();
    for address in [0, lowest - 1, end, u64::MAX] {
        assert_eq!(table.rule_at(address), Rule::UNDESCRIBED, "{address:#x}");
    }
}

#[test]
fn files_without_a_table_say_why() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skip("unwind tables are for x86-64 Linux");
    }
    let executable = program("frames", &[]);
    let bytes = fs_err::read(&executable).unwrap();
    let file = scratch_path("changed");
    let reason = |bytes: &[u8]| {
        fs_err::write(&file, bytes).unwrap();
        unwind_table::make(&file).unwrap().unwrap_err()
    };
    assert_eq!(reason(b"#!/bin/sh\nexit 0\n"), Reason::NotElf);
    assert_eq!(reason(b""), Reason::NotElf);
    let mut other = bytes.clone();
    // The machine in the ELF header; 183 is AArch64.
    other[18] = 183;
    assert_eq!(reason(&other), Reason::Architecture("Aarch64".to_owned()));
    assert!(matches!(reason(&bytes[..bytes.len() / 2]), Reason::Damaged(_)));
    let mut damaged = bytes.clone();
    let parsed = object::File::parse(&*bytes).unwrap();
    let (at, _) = parsed.section_by_name(".eh_frame").unwrap().file_range().unwrap();
    // An entry that is longer than the section.
    damaged[usize::try_from(at).unwrap()..][..4].copy_from_slice(&0xFFFF_FF00_u32.to_le_bytes());
    assert!(matches!(reason(&damaged), Reason::Damaged(_)));
    fs_err::remove_file(&file).unwrap();
    assert!(
        unwind_table::make(&file).unwrap_err().to_string().contains(file.as_str()),
        "a missing file is an error"
    );
}

#[test]
fn a_table_is_made_once_and_again_for_another_executable() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skip("unwind tables are for x86-64 Linux");
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(folder.path()).unwrap();
    let executable = folder.join("test");
    let target = kept_table::beside(&executable);
    let keep = || kept_table::keep(&executable, &target).unwrap();
    let kept = || fs_err::metadata(&target).map(|file| std::os::unix::fs::MetadataExt::ino(&file)).unwrap();

    fs_err::copy(program("frames", &[]), &executable).unwrap();
    assert_eq!(keep(), Ok(()));
    let first = kept();
    assert_eq!(keep(), Ok(()));
    assert_eq!(kept(), first, "it is not written again");
    let bytes = fs_err::read(&target).unwrap();
    assert_eq!(UnwindTable::from_bytes(&bytes), Ok(table(&executable)));

    fs_err::write(&target, &bytes[..bytes.len() - 8]).unwrap();
    assert_eq!(keep(), Ok(()));
    assert_eq!(fs_err::read(&target).unwrap(), bytes, "an incomplete one is replaced");

    fs_err::copy(program("stacks", &[]), &executable).unwrap();
    assert_eq!(keep(), Ok(()));
    let other = UnwindTable::from_bytes(&fs_err::read(&target).unwrap()).unwrap();
    assert_eq!(other, table(&executable));
    assert_ne!(other.to_bytes(), bytes);

    fs_err::write(&executable, "no executable").unwrap();
    assert_eq!(keep(), Err(Reason::NotElf));
    assert!(!target.exists(), "no table of another executable stays");
    assert_eq!(fs_err::read_dir(folder).unwrap().count(), 1, "nothing else stays");
}

/// The stacks that the program prints, by label.
fn stacks(executable: &Utf8Path) -> HashMap<String, Vec<u64>> {
    let output = succeed(&mut Command::new(executable));
    let line = |line: &str| {
        let (label, addresses) = line.split_once(" | ").unwrap().0.split_once(' ').unwrap();
        let addresses = addresses.split(' ').map(|digits| u64::from_str_radix(digits, 16).unwrap());
        (label.to_owned(), addresses.collect())
    };
    text(&output.stdout).lines().map(line).collect()
}

/// Walks the stacks that the program prints with the table alone, until they leave the executable.
/// Returns each with what the unwinder found in the same process.
fn walks(executable: &Utf8Path) -> Vec<(String, Vec<u64>, Vec<u64>)> {
    let table = table(executable);
    let output = succeed(&mut Command::new(executable));
    let number = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
    let walk = |line: &str| {
        let (stack, state) = line.split_once(" | ").unwrap();
        let (label, unwound) = stack.split_once(' ').unwrap();
        let state: Vec<&str> = state.split(' ').collect();
        let [begin, rip, bottom, rbp, memory] = state[..] else { panic!("{line}") };
        let memory: Vec<u64> = memory.split(',').map(number).collect();
        let (begin, bottom) = (number(begin), number(bottom));
        let read = |address: u64| memory[usize::try_from((address - bottom) / 8).unwrap()];
        let (mut address, mut rsp, mut rbp) = (number(rip) - begin, bottom, number(rbp));
        let mut walked = Vec::new();
        while let Step::Caller { base, cfa_offset, saved_rbp } = table.rule_at(address).step() {
            let cfa = cfa_offset + if base == Base::Rsp { rsp } else { rbp };
            rbp = saved_rbp.map_or(rbp, |below| read(cfa - below));
            address = read(cfa - 8).wrapping_sub(begin + 1);
            rsp = cfa;
            walked.push(address);
        }
        let unwound = unwound.split(' ').map(number).take(walked.len()).collect();
        (label.to_owned(), walked, unwound)
    };
    text(&output.stdout).lines().map(walk).collect()
}

#[test]
fn a_walk_with_the_table_passes_the_frames_that_the_unwinder_passes() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skip("unwind tables are for x86-64 Linux");
    }
    let release = ["-C", "opt-level=3", "-C", "lto=fat", "-C", "panic=abort"];
    for flags in [&[][..], &release, &["-C", "opt-level=s"], &["-C", "force-frame-pointers=yes"]] {
        let walks = walks(&program("stacks", flags));
        assert_eq!(walks.len(), 7, "{flags:?}");
        for (label, walked, unwound) in walks {
            assert_eq!(walked, unwound, "{flags:?} {label}");
            let outside = walked.last().unwrap();
            assert!(*outside > 1 << 32, "it ends where libc called `main`: {outside:#x}");
            assert!(walked.len() > if label == "recursive" { 300 } else { 2 }, "{flags:?} {label}");
        }
    }
}

/// All frames of a stack up to `main`.
fn frames(resolver: &mut Resolver, stack: &[u64]) -> Vec<Frame> {
    let all: Vec<Frame> = stack.iter().flat_map(|address| resolver.frames(*address).to_vec()).collect();
    let main = all.iter().position(|frame| frame.function.as_deref() == Some("stacks::main"));
    all[..=main.unwrap_or_else(|| panic!("{all:#?}"))].to_vec()
}

/// The line of `stacks.rs` that contains a text.
fn line_with(text: &str) -> u32 {
    let source = fs_err::read_to_string(sources().join("stacks.rs")).unwrap();
    let line = source.lines().position(|line| line.contains(text)).unwrap();
    u32::try_from(line).unwrap() + 1
}

fn functions(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_deref().unwrap_or("?")).collect()
}

/// How symbols write functions, and debug information inlined ones.
struct Spelling {
    generic: &'static str,
    closure: &'static str,
    asynchronous: &'static str,
    has_inlined_paths: bool,
}

const OLDER: Spelling = Spelling {
    generic: "stacks::shapes::Holder<T>::generic",
    closure: "stacks::main::{closure}",
    asynchronous: "stacks::asynchronous::{closure}",
    has_inlined_paths: true,
};

const NEWER: Spelling = Spelling {
    generic: "stacks::shapes::Holder<u8>::generic",
    closure: "stacks::main::{closure#0}",
    asynchronous: "stacks::asynchronous::{closure#0}",
    has_inlined_paths: true,
};

/// Checks functions, files and lines of a program that was compiled with line tables.
fn assert_lines(flags: &[&str], spelling: &Spelling) {
    let executable = program("stacks", flags);
    let stacks = stacks(&executable);
    let mut resolver = Resolver::open(&executable, &Paths::new(&sources())).unwrap();
    let mut of = |label: &str| frames(&mut resolver, &stacks[label]);
    let here = Some(Place::Checkout("stacks.rs".into()));

    let inlined = of("inlined");
    for (frame, name) in inlined.iter().zip(["inlined_twice", "inlined", "around"]) {
        let has_path = name == "around" || spelling.has_inlined_paths;
        let path = if has_path { format!("stacks::shapes::{name}") } else { name.to_owned() };
        assert_eq!(frame.function, Some(path), "{flags:?}");
        let line = line_with(&format!("the call in `{name}`"));
        assert_eq!((&frame.place, frame.line), (&here, Some(line)), "{flags:?} {name}");
        assert_eq!(frame.is_inlined, name != "around", "{flags:?} {name}");
        assert_eq!(frame.module.as_deref(), has_path.then_some("stacks::shapes"), "{flags:?}");
        assert_eq!(frame.crate_name(), has_path.then_some("stacks"), "{flags:?}");
    }
    let main = inlined.last().unwrap();
    assert_eq!((&main.place, main.line), (&here, Some(line_with("shapes::around();"))), "{flags:?}");

    assert_eq!(functions(&of("generic"))[0], spelling.generic, "{flags:?}");
    let dropped = of("drop");
    assert!(functions(&dropped)[0].ends_with(" as core::ops::drop::Drop>::drop"), "{dropped:?}");
    assert_eq!(dropped[0].module.as_deref(), Some("stacks::shapes"), "{flags:?}");
    assert_eq!(functions(&of("closure"))[..2], [spelling.closure, "stacks::call"], "{flags:?}");
    assert_eq!(functions(&of("async"))[0], spelling.asynchronous, "{flags:?}");
    let sort = of("sort");
    let standard = sort.iter().find(|frame| matches!(frame.place, Some(Place::Std(_)))).unwrap();
    assert!(
        standard.line.is_some() && matches!(standard.crate_name(), Some("core" | "alloc")),
        "{standard:?}"
    );
    assert_eq!((resolver.detail(), resolver.damage()), (Detail::Lines, None), "{flags:?}");
}

#[test]
fn functions_and_lines_come_from_debug_information() {
    assert_lines(&["-C", "debuginfo=2"], &OLDER);
}

#[test]
fn line_tables_alone_have_no_paths_of_inlined_functions() {
    let flags = ["-C", "debuginfo=line-tables-only", "-C", "symbol-mangling-version=v0"];
    assert_lines(&flags, &Spelling { has_inlined_paths: false, ..NEWER });
}

#[test]
fn optimised_programs_have_lines_too() {
    let flags = ["-C", "debuginfo=1", "-C", "opt-level=3", "-C", "lto=fat", "-C", "codegen-units=1"];
    assert_lines(&[&flags[..], &["-C", "symbol-mangling-version=v0"]].concat(), &NEWER);
}

#[test]
fn split_debug_information_is_read() {
    if !cfg!(target_os = "linux") {
        return skip("split debug information has another form here");
    }
    assert_lines(&["-C", "debuginfo=2", "-C", "split-debuginfo=packed"], &OLDER);
}

#[test]
fn without_debug_information_there_are_names_and_then_addresses() {
    let executable = program("stacks", &["-C", "debuginfo=0"]);
    let stacks = stacks(&executable);
    let stripped = scratch_path("stripped");
    let open = |executable: &Utf8Path| Resolver::open(executable, &Paths::new(&sources())).unwrap();

    // The standard library has lines all the same.
    let mut resolver = open(&executable);
    let found = frames(&mut resolver, &stacks["generic"]);
    assert_eq!(functions(&found), ["stacks::shapes::Holder<T>::generic", "stacks::main"]);
    assert_eq!((&found[0].place, found[0].line), (&None, None));
    for address in &stacks["generic"] {
        resolver.frames(*address);
    }
    assert_eq!(resolver.detail(), Detail::Names);

    for (strip, detail) in [("debuginfo", Detail::Names), ("symbols", Detail::Addresses)] {
        let executable = program("stacks", &["-C", "debuginfo=0", "-C", &format!("strip={strip}")]);
        let stacks = self::stacks(&executable);
        let mut resolver = open(&executable);
        let first = resolver.frames(stacks["generic"][0]).to_vec();
        let function = first[0].function.as_deref();
        assert_eq!(first.len(), 1);
        assert_eq!(function, (detail == Detail::Names).then_some("stacks::shapes::Holder<T>::generic"));
        assert_eq!(resolver.detail(), detail, "{strip}");
        for address in [1 << 40, u64::MAX] {
            assert_eq!(resolver.frames(address), [Frame::default()]);
        }
    }

    fs_err::write(&stripped, "no executable").unwrap();
    assert!(
        Resolver::open(&stripped, &Paths::default()).err().unwrap().to_string().contains(stripped.as_str())
    );
    fs_err::remove_file(&stripped).unwrap();
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_separate_debug_file_is_used_if_it_has_the_same_build_id() {
    if !is_installed("objcopy") {
        return skip("objcopy is not installed");
    }
    let executable = program("stacks", &["-C", "debuginfo=2"]);
    let address = stacks(&executable)["generic"][0];
    let folder = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(folder.path()).unwrap();
    let (stripped, debug) = (folder.join("stacks"), folder.join("stacks.debug"));
    let objcopy = |arguments: &[&str], from: &Utf8Path, to: &Utf8Path| {
        succeed(Command::new("objcopy").args(arguments).args([from, to]));
    };
    objcopy(&["--only-keep-debug"], &executable, &debug);
    objcopy(&["--strip-all", &format!("--add-gnu-debuglink={debug}")], &executable, &stripped);
    let frame = |resolver: &mut Resolver| resolver.frames(address)[0].clone();
    let mut resolver = Resolver::open(&stripped, &Paths::new(&sources())).unwrap();
    let function = Some("stacks::shapes::Holder<T>::generic");
    let found = frame(&mut resolver);
    assert_eq!((found.function.as_deref(), found.line), (function, Some(line_with("show(\"generic\")"))));

    // That of another build says nothing about this one.
    let other = program("stacks", &["-C", "debuginfo=line-tables-only", "-C", "symbol-mangling-version=v0"]);
    objcopy(&["--only-keep-debug"], &other, &debug);
    let mut resolver = Resolver::open(&stripped, &Paths::new(&sources())).unwrap();
    assert_eq!((frame(&mut resolver), resolver.detail()), (Frame::default(), Detail::Addresses));
}

#[test]
fn compressed_debug_information_is_read_and_damaged_is_left() {
    if !is_installed("objcopy") {
        return skip("objcopy is not installed");
    }
    let executable = program("stacks", &["-C", "debuginfo=2"]);
    let address = stacks(&executable)["generic"][0];
    let copy = scratch_path("compressed");
    let compress = ["--compress-debug-sections=zlib"];
    succeed(Command::new("objcopy").args(compress).args([&executable, &copy]));
    let mut resolver = Resolver::open(&copy, &Paths::new(&sources())).unwrap();
    assert_eq!(resolver.frames(address)[0].line, Some(line_with("show(\"generic\")")));

    let bytes = fs_err::read(&executable).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let (at, size) = file.section_by_name(".debug_info").unwrap().file_range().unwrap();
    let range = usize::try_from(at).unwrap()..usize::try_from(at + size).unwrap();
    let mut damaged = bytes.clone();
    damaged[range].fill(0xA5);
    fs_err::write(&copy, &damaged).unwrap();
    let mut resolver = Resolver::open(&copy, &Paths::new(&sources())).unwrap();
    let function = Some("stacks::shapes::Holder<T>::generic");
    assert_eq!(resolver.frames(address)[0].function.as_deref(), function);
    assert_eq!(resolver.detail(), Detail::Names);
    assert!(resolver.damage().is_some());
    fs_err::remove_file(&copy).unwrap();
}

#[test]
fn a_stripped_library_has_the_names_that_it_exports() {
    let source = scratch_path("library.rs");
    let code = "#[no_mangle] pub extern \"C\" fn exported(number: u32) -> u32 { number.wrapping_mul(3) }";
    fs_err::write(&source, code).unwrap();
    let library = scratch_path("library.so");
    let flags = ["--crate-type", "cdylib", "-C", "strip=symbols", "-C", "panic=abort"];
    succeed(usual_rustc().args(flags).arg(&source).arg("-o").arg(&library));
    let bytes = fs_err::read(&library).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let exported = file.dynamic_symbols().find(|symbol| symbol.name() == Ok("exported")).unwrap();
    let mut resolver = Resolver::open(&library, &Paths::default()).unwrap();
    let frame = Frame { function: Some("exported".to_owned()), ..Frame::default() };
    assert_eq!(resolver.frames(exported.address() + 1), [frame]);
    assert_eq!(resolver.detail(), Detail::Names);
    for path in [&source, &library] {
        fs_err::remove_file(path).unwrap();
    }
    assert!(!Path::new(&library).exists());
}
