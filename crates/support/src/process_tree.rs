//! The processes below this one, found in `/proc` and killed together.
//!
//! A supervisor uses this after `fork` and before `exec`, where allocating is not allowed. So
//! everything here works on a fixed table from `mmap` and on buffers on the stack.
#![expect(unsafe_code, reason = "these are bare system calls: the standard library's calls may allocate")]

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// How many processes of the machine are looked at. A fork bomb may be larger; the next round finds
/// the rest.
const CAPACITY: usize = 1 << 16;

/// How often all processes are stopped before they are killed. A process that forks faster than
/// this is killed without it.
const STOP_ROUNDS: usize = 16;

/// The longest name that the kernel keeps of a process.
pub(crate) const NAME: usize = 16;

/// A process, as `/proc/<id>/stat` describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub id: i32,
    parent: i32,
    /// The session. No process can join one that exists.
    session: i32,
    /// When it started, in clock ticks since boot. No two processes with one id have the same.
    started: u64,
    /// `R`, `S`, `T`, `Z`, …
    state: u8,
    is_descendant: bool,
    /// The name, filled up with zero bytes.
    pub name: [u8; NAME],
}

impl Process {
    /// Whether it still runs; a zombie only waits for its parent.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Sends a signal, unless another process has this id by now.
    fn signal(&self, signal: i32) {
        // SAFETY: these calls take integers only. The descriptor is this function's own.
        unsafe {
            let handle = libc::syscall(libc::SYS_pidfd_open, self.id, 0);
            let Ok(handle) = i32::try_from(handle) else { return };
            if handle < 0 {
                // Before Linux 5.3 there is no such handle.
                if *libc::__errno_location() == libc::ENOSYS {
                    libc::kill(self.id, signal);
                }
                return;
            }
            if read(self.id).is_some_and(|now| now.started == self.started) {
                libc::syscall(libc::SYS_pidfd_send_signal, handle, signal, 0, 0);
            }
            libc::close(handle);
        }
    }
}

/// A table for the processes of the machine.
pub(crate) struct Table {
    start: *mut Process,
}

impl Table {
    /// Maps the memory. `None` if there is none, or if `/proc` does not describe this process.
    pub fn new() -> Option<Self> {
        if !proc_is_ours() {
            return None;
        }
        let length = CAPACITY * size_of::<Process>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        (start != libc::MAP_FAILED).then_some(Self { start: start.cast() })
    }

    /// Returns the processes below this one, as they are now.
    pub fn descendants(&mut self) -> impl Iterator<Item = &Process> {
        self.descendants_of(own_id(), Spared::default())
    }

    fn descendants_of(&mut self, ancestor: i32, spared: Spared<'_>) -> impl Iterator<Item = &Process> {
        // SAFETY: the mapping has this many places, zero bytes are a valid `Process`, and `self` is
        // borrowed mutably as long as the slice.
        let table = unsafe { std::slice::from_raw_parts_mut(self.start, CAPACITY) };
        let mut length = 0;
        each_process(|process| {
            if let Some(place) = table.get_mut(length) {
                *place = process;
                length += 1;
            }
        });
        let table = &mut table[..length];
        table.sort_unstable_by_key(|process| process.id);
        mark_descendants(table, ancestor, spared);
        table.iter().filter(|process| process.is_descendant)
    }

    /// Kills all processes below this one that are alive now, and tells of each.
    pub(crate) fn kill_descendants(&mut self, tell: impl FnMut(&Process)) {
        self.kill_below(own_id(), Spared::default(), tell);
    }

    /// Stops the processes first, so that none of them starts others meanwhile.
    fn kill_below(&mut self, ancestor: i32, spared: Spared<'_>, mut tell: impl FnMut(&Process)) {
        for _ in 0..STOP_ROUNDS {
            let mut is_quiet = true;
            for process in self.descendants_of(ancestor, spared).filter(|process| process.is_alive()) {
                if !process.is_stopped() {
                    process.signal(libc::SIGSTOP);
                    is_quiet = false;
                }
            }
            if is_quiet {
                break;
            }
        }
        for process in self.descendants_of(ancestor, spared).filter(|process| process.is_alive()) {
            process.signal(libc::SIGKILL);
            tell(process);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it with this length, and no slice of it is left.
        unsafe { libc::munmap(self.start.cast(), CAPACITY * size_of::<Process>()) };
    }
}

/// Kills everything below this process, until nothing is left or the processes do not end.
pub(crate) fn kill_all() {
    kill_all_but(Spared::default());
}

/// Kills what came to this process because a supervisor below it was killed. The other supervisors
/// and what they supervise go on, and so do this process's own programs, which are in its session.
pub fn kill_orphans(supervisors: &[i32]) {
    // SAFETY: with 0 the call is about this process, and cannot fail.
    let session = unsafe { libc::getsid(0) };
    kill_all_but(Spared { ids: supervisors, session: Some(session) });
}

fn kill_all_but(spared: Spared<'_>) {
    let Some(mut table) = Table::new() else { return };
    for _ in 0..100 {
        let mut is_any = false;
        table.kill_below(own_id(), spared, |_| is_any = true);
        if !is_any {
            return;
        }
        pause_milliseconds(5);
    }
}

/// Kills everything below a child of this process, and asks the child itself to end.
pub fn end_child(child: i32) {
    // SAFETY: the child is not reaped yet, so no other process has its id.
    let send = |signal| unsafe { libc::kill(child, signal) };
    // While it is stopped, it starts no others.
    send(libc::SIGSTOP);
    if let Some(mut table) = Table::new() {
        table.kill_below(child, Spared::default(), |_| ());
    }
    send(libc::SIGTERM);
    send(libc::SIGCONT);
}

/// Waits without the standard library.
pub(crate) fn pause_milliseconds(milliseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    // SAFETY: it reads `time` and writes nothing.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}

fn own_id() -> i32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::getpid() }
}

/// Whether `/proc` belongs to this process's namespace of ids. Otherwise its ids are those of other
/// processes here.
fn proc_is_ours() -> bool {
    let mut bytes = [0_u8; 512];
    read_file(c"/proc/self/stat", &mut bytes).and_then(parse).is_some_and(|process| process.id == own_id())
}

/// Processes that are left alone, with everything below them.
#[derive(Clone, Copy, Debug, Default)]
struct Spared<'a> {
    ids: &'a [i32],
    /// All processes of this session.
    session: Option<i32>,
}

impl Spared<'_> {
    fn has(self, process: &Process) -> bool {
        self.ids.contains(&process.id) || self.session == Some(process.session)
    }
}

/// Marks all processes below `ancestor` but the spared ones. The table is sorted by id.
fn mark_descendants(table: &mut [Process], ancestor: i32, spared: Spared<'_>) {
    loop {
        let mut is_new = false;
        for index in 0..table.len() {
            let process = &table[index];
            if process.is_descendant || process.id == ancestor || spared.has(process) {
                continue;
            }
            let parent = table[index].parent;
            let of_table = || table.binary_search_by_key(&parent, |process| process.id);
            if parent == ancestor || of_table().is_ok_and(|at| table[at].is_descendant) {
                table[index].is_descendant = true;
                is_new = true;
            }
        }
        // Most parents have lower ids than their children, so few passes suffice.
        if !is_new {
            return;
        }
    }
}

/// Calls the function for each process of the machine.
fn each_process(mut take: impl FnMut(Process)) {
    #[repr(align(8))]
    struct Entries([u8; 8192]);
    /// Where a directory entry has its length and its name (`struct linux_dirent64`).
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;

    let mut entries = Entries([0; 8192]);
    // SAFETY: the path ends in a zero byte. The kernel writes at most the buffer's length into it.
    unsafe {
        let folder = libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC);
        if folder < 0 {
            return;
        }
        loop {
            let read = libc::syscall(libc::SYS_getdents64, folder, entries.0.as_mut_ptr(), entries.0.len());
            let Ok(read @ 1..) = usize::try_from(read) else { break };
            let mut rest = entries.0.get(..read).unwrap_or_default();
            while let Some(&[low, high]) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
                let length = usize::from(u16::from_ne_bytes([low, high]));
                let id = rest.get(NAME_AT..).and_then(number);
                id.and_then(self::read).into_iter().for_each(&mut take);
                rest = rest.get(length.max(1)..).unwrap_or_default();
            }
        }
        libc::close(folder);
    }
}

/// Reads `/proc/<id>/stat`.
fn read(id: i32) -> Option<Process> {
    let mut path = [0_u8; 32];
    let mut length = 0;
    let mut push = |byte: u8| {
        path[length] = byte;
        length += 1;
    };
    b"/proc/".iter().copied().for_each(&mut push);
    let mut divisor = 1_000_000_000;
    while divisor > id && divisor > 1 {
        divisor /= 10;
    }
    while divisor > 0 {
        push(b'0' + u8::try_from(id / divisor % 10).ok()?);
        divisor /= 10;
    }
    b"/stat\0".iter().copied().for_each(&mut push);
    let mut bytes = [0_u8; 512];
    read_file(CStr::from_bytes_until_nul(&path).ok()?, &mut bytes).and_then(parse)
}

fn read_file<'a>(path: &CStr, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
    // SAFETY: the path ends in a zero byte. The kernel writes at most the buffer's length into it.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let read = libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(file);
        bytes.get(..usize::try_from(read).ok()?)
    }
}

/// Takes `12 (a name) S 1 …` apart. A name may contain anything, also `)`.
fn parse(stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let mut name = [0; NAME];
    let source = stat.get(open + 1..close)?;
    let length = source.len().min(NAME - 1);
    name[..length].copy_from_slice(&source[..length]);
    let state = *stat.get(close + 2)?;
    let parent = number(stat.get(close + 4..)?)?;
    // `man 5 proc_pid_stat`: the state is field 3, the session field 6, the start time field 22.
    let session = stat.get(close + 2..)?.split(|byte| *byte == b' ').nth(3).and_then(number).unwrap_or(0);
    let started = stat.get(close + 2..)?.split(|byte| *byte == b' ').nth(19).map_or(0, large_number);
    Some(Process { id: number(stat)?, parent, session, started, state, is_descendant: false, name })
}

/// Reads the digits at the start.
fn number(bytes: &[u8]) -> Option<i32> {
    let mut value = None;
    for byte in bytes.iter().take_while(|byte| byte.is_ascii_digit()) {
        let digit = i32::from(byte - b'0');
        value = Some(i32::checked_add(i32::checked_mul(value.unwrap_or(0), 10)?, digit)?);
    }
    value
}

/// Reads the digits at the start, modulo 2^64.
fn large_number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |value, byte| u64::wrapping_add(u64::wrapping_mul(value, 10), u64::from(byte - b'0')))
}

/// Takes the processes that lose their parent below this one as its own children, so that they stay
/// below it.
pub fn adopt_orphans() {
    // SAFETY: this option takes an integer.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Returns an empty signal set, or one with all signals.
pub(crate) fn signals(all: bool) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: both calls fill the set, which is then initialised.
    unsafe {
        if all {
            libc::sigfillset(set.as_mut_ptr());
        } else {
            libc::sigemptyset(set.as_mut_ptr());
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let process = parse(b"4711 (a) S 1) T 42 4711 4711 0 -1").unwrap();
        assert_eq!((process.id, process.parent, process.state), (4711, 42, b'T'));
        assert_eq!(&process.name[..7], b"a) S 1\0");
        let line = b"7 (sleep) S 3 7 3 0 -1 4194304 93 0 0 0 0 0 0 0 20 0 1 0 123456789012 5726208 200";
        assert_eq!(parse(line).unwrap().started, 123_456_789_012);
        assert!(parse(b"4711 (cut off").is_none());
        assert!(parse(b"").is_none());
    }

    #[test]
    fn descendants_are_found_over_any_number_of_generations() {
        let process = |id: i32, parent: i32| Process {
            id,
            parent,
            session: id / 4,
            started: 0,
            state: b'S',
            is_descendant: false,
            name: [0; NAME],
        };
        // 5 is a child of 9, whose id is higher.
        let mut table =
            [process(1, 0), process(4, 1), process(5, 9), process(7, 4), process(9, 7), process(10, 1)];
        mark_descendants(&mut table, 4, Spared::default());
        let found = |table: &[Process]| -> Vec<i32> {
            table.iter().filter(|process| process.is_descendant).map(|process| process.id).collect()
        };
        assert_eq!(found(&table), [5, 7, 9]);
        for (ids, session, left) in
            [(&[9][..], None, &[7][..]), (&[7], None, &[]), (&[], Some(2), &[7]), (&[], Some(1), &[])]
        {
            for process in &mut table {
                process.is_descendant = false;
            }
            mark_descendants(&mut table, 4, Spared { ids, session });
            assert_eq!(found(&table), left, "{ids:?} {session:?}");
        }
    }

    #[test]
    fn a_child_of_this_process_is_among_its_descendants() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let mut table = Table::new().unwrap();
        let found = table.descendants().find(|process| process.id == id).copied();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.unwrap().parent, own_id());
        assert_eq!(read(own_id()).unwrap().id, own_id());
    }
}
