//! The panic that made a test fail, from its standard error.

/// What starts the line of a panic.
const THREAD: &str = "thread '";

/// How many lines of a panic's text are quoted.
const MOST_LINES: usize = 10;

/// The last line of a process that a second panic of a thread aborted, before Rust 1.73.
const DOUBLE_PANIC: &str = "thread panicked while panicking. aborting.";

/// A panic, as the standard library printed it.
struct Panic<'a> {
    /// The thread's name; empty if the test's own hook did not print it.
    thread: &'a str,
    /// `src/lib.rs:5:9`. Before Rust 1.73, the text in quotes and then the place.
    place: &'a str,
    /// The lines below, without backtrace and notes.
    text: Vec<&'a str>,
}

/// Returns place and text of the panic that made the test fail: the last one of the test's thread, because
/// earlier ones were caught. If a destructor panicked during unwinding, it is the one before. A test without a
/// thread of its own runs in `main`. A memory assertion of another thread that did not hold before comes first,
/// because the test often fails by the result of `join`.
pub(crate) fn panic_message(stderr: &str, test: &str) -> Option<String> {
    let mut panics = panics(stderr, heading);
    if panics.is_empty() {
        panics = self::panics(stderr, heading_of_hook);
    }
    let last_of = |name: &str| {
        let of_thread = || (0..panics.len()).rev().filter(|&index| panics[index].thread == name);
        let last = &panics[of_thread().next()?];
        let is_of_destructor = last.is_end_by_destructor()
            || (!last.is_end_of_another() && stderr.trim_end().ends_with(DOUBLE_PANIC));
        let mut reasons = of_thread().filter(|&index| !panics[index].is_end_of_another());
        let last = reasons.next()?;
        Some(reasons.next().filter(|_| is_of_destructor).unwrap_or(last))
    };
    let index = last_of(test).or_else(|| last_of("main")).or_else(|| last_of("")).unwrap_or(0);
    let own = panics.get(index)?;
    let of_others = || panics[..index].iter().rev().filter(|panic| panic.thread != test);
    let reason = of_others().next().filter(|_| own.is_of_another_thread()).unwrap_or(own).shown();
    if is_of_memory_assertion(&reason) {
        return Some(reason);
    }
    let mut of_limits = of_others().filter(|panic| panic.thread != own.thread).map(Panic::shown);
    let of_limit = of_limits.find(|message| is_of_memory_assertion(message));
    Some(of_limit.map_or(reason.clone(), |message| format!("{message}\n{reason}")))
}

/// Whether the message is of a memory assertion that does not hold: one of the crate's macros, or an
/// `assert!` that shows the `Usage`. If the figure is unavailable, nobody knows whether it holds.
pub(crate) fn is_of_memory_assertion(message: &str) -> bool {
    let of_macro = ["assert_heap_peak! at ", "assert_no_leak! at ", "assert_allocations! at "];
    if of_macro.iter().any(|start| message.contains(start)) {
        return !message.contains("nobody knows whether the limit");
    }
    message.contains("heap: rise ") && message.contains("time: ") && !message.contains("unavailable")
}

/// Returns thread and place of a line that starts a panic.
type Heading = fn(&str) -> Option<(&str, &str)>;

fn panics(stderr: &str, heading: Heading) -> Vec<Panic<'_>> {
    let lines: Vec<&str> = stderr.lines().collect();
    let mut panics = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if let Some((thread, place)) = heading(line) {
            let below = lines[index + 1..].iter().copied();
            let text = below.take_while(|line| !is_end(line, heading)).take(MOST_LINES).collect();
            panics.push(Panic { thread, place: place.trim_end_matches(':'), text });
        }
    }
    panics
}

/// Returns thread and place of `thread 'NAME' panicked at PLACE`; since Rust 1.91, `(NUMBER)` is behind the name.
/// Unfinished output of the test may precede it in the line.
fn heading(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(THREAD)?;
    let (thread, place) = rest.split_once(" panicked at ")?;
    let (thread, number) = thread.rsplit_once('\'')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.trim_start().trim_start_matches('(').trim_end_matches(')');
    is_number(number).then_some((thread, place))
}

/// Returns the place of `panicked at PLACE`, which a test's own hook prints with `{info}`.
fn heading_of_hook(line: &str) -> Option<(&str, &str)> {
    let place = line.trim().strip_prefix("panicked at ")?;
    place.trim_end_matches(':').ends_with(|last: char| last.is_ascii_digit()).then_some(("", place))
}

fn is_end(line: &str, heading: Heading) -> bool {
    let line = line.trim_start();
    let starts = ["note: ", "stack backtrace:", "test "];
    starts.iter().any(|start| line.starts_with(start)) || heading(line).is_some()
}

impl Panic<'_> {
    fn shown(&self) -> String {
        format!("{}: {}", self.place, self.text.join("\n")).trim_end_matches([':', ' ', '\n']).to_owned()
    }

    /// Whether this panic only says that another one could not unwind.
    fn is_end_of_another(&self) -> bool {
        self.is_end_by_destructor() || self.said().starts_with("panic in a function that cannot unwind")
    }

    /// Whether this panic only says that a destructor panicked during unwinding.
    fn is_end_by_destructor(&self) -> bool {
        self.said().starts_with("panic in a destructor during cleanup")
    }

    fn said(&self) -> &str {
        self.text.first().copied().unwrap_or(self.place).trim_start_matches('\'')
    }

    /// Whether this panic only says that another thread panicked: the result of `join`, or of a scope.
    fn is_of_another_thread(&self) -> bool {
        let said = self.text.last().copied().unwrap_or(self.place);
        said.contains("Any { .. }") || said.contains("a scoped thread panicked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stderr: &str) -> String {
        panic_message(stderr, "tests::a").unwrap_or_default()
    }

    #[test]
    fn the_last_panic_of_the_tests_thread_is_why_it_failed() {
        let caught = "\nthread 'tests::a' (7) panicked at src/lib.rs:5:9:\nexpected\nnote: run with …\n";
        let failure = "\nthread 'tests::a' (7) panicked at src/lib.rs:8:9:\nwrong\n  left: 1\n";
        assert_eq!(message(&format!("{caught}{failure}")), "src/lib.rs:8:9: wrong\n  left: 1");
        let worker = "\nthread 'worker' panicked at src/lib.rs:2:1:\nof a worker\n";
        assert_eq!(message(&format!("{failure}{worker}")), "src/lib.rs:8:9: wrong\n  left: 1");
        assert_eq!(message(worker), "src/lib.rs:2:1: of a worker");
        let of_main = "\nthread 'main' panicked at src/main.rs:3:1:\nof main\n";
        assert_eq!(message(&format!("{worker}{of_main}")), "src/main.rs:3:1: of main");
    }

    #[test]
    fn a_printed_text_is_no_panic() {
        let printed = "it panicked at the disco\nmore\n";
        assert_eq!(message(printed), "");
        let failure = "thread 'tests::a' panicked at src/lib.rs:8:9:\nwrong\n";
        assert_eq!(message(&format!("{printed}{failure}")), "src/lib.rs:8:9: wrong");
        assert_eq!(message(&format!("loading … {failure}")), "src/lib.rs:8:9: wrong");
    }

    #[test]
    fn the_panic_that_a_hook_of_the_test_prints_is_quoted() {
        let caught = "panicked at src/lib.rs:5:9:\nexpected\n";
        let failure = "  panicked at src/lib.rs:8:9:\nwrong\n  left: 1\n";
        assert_eq!(message(&format!("{caught}{failure}")), "src/lib.rs:8:9: wrong\n  left: 1");
        assert_eq!(message("panicked at 'boom', src/lib.rs:5:9\n"), "'boom', src/lib.rs:5:9");
        assert_eq!(message("panicked at the disco\n"), "");
        let usual = "thread 'tests::a' panicked at src/lib.rs:2:9:\nusual\n";
        assert_eq!(message(&format!("{usual}{failure}")).lines().next(), Some("src/lib.rs:2:9: usual"));
    }

    #[test]
    fn a_panic_about_another_panic_is_not_the_reason() {
        let worker = "thread '<unnamed>' panicked at src/lib.rs:2:1:\nof a worker\n";
        let joined = "thread 'tests::a' panicked at src/lib.rs:8:9:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }\n";
        assert_eq!(message(&format!("{worker}{joined}")), "src/lib.rs:2:1: of a worker");
        assert!(message(joined).starts_with("src/lib.rs:8:9: called"));
        let failure = "thread 'tests::a' panicked at src/lib.rs:8:9:\nwrong\n";
        let abort = "thread 'tests::a' panicked at library/core/src/panicking.rs:225:5:\npanic in a function that cannot unwind\n";
        assert_eq!(message(&format!("{failure}{abort}")), "src/lib.rs:8:9: wrong");
    }

    #[test]
    fn a_destructor_that_panics_during_unwinding_is_not_the_reason() {
        let caught = "\nthread 'tests::a' (7) panicked at src/lib.rs:2:9:\nexpected\n";
        let first = "\nthread 'tests::a' (7) panicked at src/lib.rs:8:9:\nwrong\nnote: run with …\n";
        let of_drop = "\nthread 'tests::a' (7) panicked at src/lib.rs:3:9:\nof a destructor\nstack backtrace:\n  0: a\n";
        let abort = "\nthread 'tests::a' (7) panicked at library/core/src/panicking.rs:233:5:\npanic in a destructor \
                     during cleanup\nthread caused non-unwinding panic. aborting.\n";
        let before_rust_1_73 = "thread panicked while panicking. aborting.\n";
        for end in [abort, before_rust_1_73] {
            assert_eq!(message(&format!("{caught}{first}{of_drop}{end}")), "src/lib.rs:8:9: wrong");
        }
        assert_eq!(message(&format!("{first}{abort}")), "src/lib.rs:8:9: wrong");
        assert_eq!(message(&format!("{first}{of_drop}")), "src/lib.rs:3:9: of a destructor");
    }

    #[test]
    fn a_panic_before_rust_1_73_has_its_text_before_its_place() {
        let stderr = "thread 'tests::a' panicked at 'boom', src/lib.rs:5:9\nnote: run with …\n";
        assert_eq!(message(stderr), "'boom', src/lib.rs:5:9");
    }
}
