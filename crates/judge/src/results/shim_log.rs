//! Reads the shim's log into a measurement. The log has one JSON object per line, schema version 1.
//!
//! A process that was killed leaves a torn last line. Newer minor versions add events and fields. A
//! forked child writes to its parent's log. All three are accepted, with a note if something is
//! lost.

use std::borrow::Cow;
use std::io::BufRead;

use serde::Deserialize;
use serde_json::Value;

use crate::results::log_file::{LineError, LogError, VERSION, each_line};
use crate::results::log_line::{LogLine, LogText};
use crate::results::measurement::{Causes, Kind, Measurement, NO_READING, Nesting};
use memprof_plan::metric;
use memprof_support::counted::counted;
use memprof_support::labels;

/// Reads a whole log. `file` is its name in errors.
pub fn read(log: impl BufRead, file: &str) -> Result<Measurement, LogError> {
    let mut reader = LogReader::default();
    let torn = each_line(log, file, |text, _| reader.take(text))?;
    reader.measurement.notes.extend(torn);
    Ok(reader.finish())
}

/// The labels of the checkpoints that the shim adds to every run.
const OWN_LABELS: [&str; 2] = ["start", "done"];

/// Returns the label under which a checkpoint is known. The shim's own checkpoints have no place in
/// the source. A test's checkpoint of the same label is another point of the program, and must not
/// be compared with them.
pub(super) fn known_label(label: &str, has_place: bool) -> Cow<'_, str> {
    let name = labels::bounded(label);
    if has_place && OWN_LABELS.contains(&&*name) { format!("{name} (test)").into() } else { name }
}

/// What the source of a figure adds that begins with the test's body.
const FROM_BODY: &str = "from the test's body";

/// The shim has at most 128 metrics. Each takes memory for every line of the log.
const MOST_METRICS: usize = 1024;

/// What has been read so far.
#[derive(Default)]
struct LogReader {
    measurement: Measurement,
    process: Option<u64>,
    begun: bool,
    sequence: Vec<u64>,
    of_other_processes: usize,
    of_unknown_kind: usize,
    /// Where the figures begin, for the sources of those that depend on it.
    beginning: Option<String>,
}

impl LogReader {
    fn take(&mut self, bytes: &[u8]) -> Result<(), LineError> {
        let line: LogLine = match serde_json::from_slice(bytes) {
            Ok(line) => line,
            Err(error) => return self.take_foreign(bytes, &error),
        };
        if line.v > VERSION {
            return Err(LineError::Newer(line.v));
        }
        if *self.process.get_or_insert(line.pid) != line.pid {
            self.of_other_processes += 1;
            return Ok(());
        }
        let kind = match &*line.event.0 {
            "checkpoint" => Kind::Point,
            "scope" if line.traced == Some(true) => Kind::Call,
            "scope" => Kind::Scope,
            other => {
                let Measurement { trace, tensors, layers, .. } = &mut self.measurement;
                let taken = trace.take(other, bytes).or_else(|| tensors.take(other, bytes, line.seq));
                match taken.or_else(|| layers.take(other, bytes, line.seq)) {
                    Some(taken) => taken.map_err(|error| LineError::Malformed(error.to_string()))?,
                    None if self.take_rare(other, &line)? => {}
                    None => self.of_unknown_kind += 1,
                }
                self.sequence.push(line.seq);
                return Ok(());
            }
        };
        let label = line.label.as_ref().ok_or_else(|| missing("label"))?;
        let occurrence = line.occurrence.ok_or_else(|| missing("occurrence"))?;
        let readings = line.metrics.as_ref().ok_or_else(|| missing("metrics"))?;
        if let Some((metric, _)) = readings.0.iter().find(|(_, value)| *value == NO_READING) {
            return Err(LineError::Malformed(format!("{} is out of range", metric.0)));
        }
        readings.0.iter().try_for_each(|(metric, _)| named(&metric.0).map(drop))?;
        self.sequence.push(line.seq);
        let readings = readings.0.iter().map(|(metric, value)| (&*metric.0, *value));
        let label = known_label(&label.0, kind == Kind::Point && line.at.is_some());
        self.measurement.push(&label, occurrence, kind, line.seq, readings);
        if self.measurement.metrics().len() > MOST_METRICS {
            return Err(LineError::Malformed(format!("more than {MOST_METRICS} metrics")));
        }
        self.measurement.timed(line.ns.unwrap_or(0));
        if let Some(place) = &line.at {
            self.measurement.locate(&labels::bounded(&place.0));
        }
        if kind != Kind::Point {
            let nesting = Nesting { thread: line.thread.unwrap_or(0), depth: line.depth.unwrap_or(0) };
            self.measurement.nest(nesting);
        }
        Ok(())
    }

    fn take_sources<'l>(
        &mut self,
        sources: impl Iterator<Item = (&'l LogText<'l>, &'l LogText<'l>)>,
    ) -> Result<(), LineError> {
        for (metric, source) in sources {
            self.measurement.sources.insert(named(&metric.0)?, source.0.to_string());
        }
        Ok(())
    }

    /// Takes an event that a log has only a few times. Returns whether the event is known.
    fn take_rare(&mut self, event: &str, line: &LogLine) -> Result<bool, LineError> {
        match event {
            "begin" => {
                self.begun = true;
                self.measurement.began = line.clock;
                self.measurement.build = line.build.as_ref().map(|build| build.0.to_string());
                self.measurement.shim = line.shim.as_ref().map(|shim| shim.0.to_string());
                self.take_sources(line.sources.iter().flatten())?;
            }
            // Metrics of a library that the process loaded later.
            "sources" => {
                self.take_sources(line.sources.as_ref().ok_or_else(|| missing("sources"))?.iter())?;
            }
            // If this ended the test, the outcome says so.
            "gpu_out_of_memory"
            // `stack_log_reader` reads these, of a run that records call stacks.
            | "stacks" | "module" | "frames" | "sites" | "interval" | "timeline" | "stacks_incomplete" => {}
            "absent" => {
                let metric = named(&line.metric.as_ref().ok_or_else(|| missing("metric"))?.0)?;
                let reason = line.reason.as_ref().ok_or_else(|| missing("reason"))?.0.to_string();
                self.measurement.absent.entry(metric).or_insert(reason);
            }
            "body" => {
                let clock = line.clock.map(|clock| clock.saturating_sub(line.ns.unwrap_or(0)));
                self.measurement.began = clock.or(self.measurement.began);
                let begins = line.begins.as_ref().ok_or_else(|| missing("begins"))?;
                let reason = line.reason.as_ref().map_or("unknown", |reason| &*reason.0);
                self.beginning = Some(match &*begins.0 {
                    "body" => FROM_BODY.to_owned(),
                    _ => format!("from the process's start: {reason}"),
                });
            }
            "causes" => {
                // With the process's start, the harness's threads count as well.
                let threads = line.threads.filter(|_| self.beginning.as_deref().is_none_or(|begins| begins == FROM_BODY));
                self.measurement.causes = Some(Causes {
                    has_same_numbers: line.random.as_ref().is_some_and(|random| random.0 == "same"),
                    random_numbers: line.random_numbers.unwrap_or(0),
                    hash_keys: line.hash_keys.unwrap_or(0),
                    has_threads: threads.map(|threads| threads > 1),
                });
            }
            "end" => self.measurement.ended = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A line that cannot be read may be an event of a newer version, whose fields mean something
    /// else.
    fn take_foreign(&mut self, bytes: &[u8], error: &serde_json::Error) -> Result<(), LineError> {
        #[derive(Deserialize)]
        struct Head {
            v: u32,
            #[serde(default)]
            event: Value,
            #[serde(default)]
            seq: Value,
            #[serde(default)]
            pid: Value,
        }
        let malformed =
            || LineError::Malformed(error.to_string().replace(" at line 1 column ", " at column "));
        let head: Head = serde_json::from_slice(bytes).map_err(|_| malformed())?;
        if head.v > VERSION {
            return Err(LineError::Newer(head.v));
        }
        let event = head.event.as_str().ok_or_else(malformed)?;
        if ["begin", "body", "sources", "absent", "checkpoint", "scope", "end"].contains(&event) {
            return Err(malformed());
        }
        self.of_unknown_kind += 1;
        if head.pid.as_u64() == self.process {
            self.sequence.extend(head.seq.as_u64());
        }
        Ok(())
    }

    fn finish(mut self) -> Measurement {
        self.measurement.order();
        self.measurement.layers.settle();
        self.measurement.trace.order();
        if let Some(beginning) = &self.beginning {
            for (_, source) in self
                .measurement
                .sources
                .iter_mut()
                .filter(|(metric, _)| metric::known(metric).counts_from_start())
            {
                *source = format!("{source}, {beginning}");
            }
        }
        let mut notes = std::mem::take(&mut self.measurement.notes);
        if !self.begun && self.process.is_some() {
            notes.push("the log has no `begin` line: the sources of its figures are unknown".to_owned());
        }
        if self.of_other_processes > 0 {
            let lines = counted(self.of_other_processes, "line");
            notes.push(format!("ignored {lines} of other processes (forked children)"));
        }
        if self.of_unknown_kind > 0 {
            let lines = counted(self.of_unknown_kind, "line");
            notes.push(format!("ignored {lines} of a kind that this version does not know"));
        }
        notes.extend(sequence_notes(self.sequence));
        self.measurement.notes = notes;
        self.measurement
    }
}

/// Returns notes on numbers that are missing or appear twice: lines were lost, or two writers took
/// the same numbers.
fn sequence_notes(mut sequence: Vec<u64>) -> Vec<String> {
    if !sequence.is_sorted() {
        sequence.sort_unstable();
    }
    let (mut missing, mut twice) = (0, 0_usize);
    let mut first_missing = None;
    let mut expected = 0;
    for &number in &sequence {
        if number < expected {
            twice += 1;
            continue;
        }
        if number > expected {
            missing += number - expected;
            first_missing.get_or_insert(expected);
        }
        expected = number.saturating_add(1);
    }
    let mut notes = Vec::new();
    if let Some(first) = first_missing {
        let numbers = counted(usize::try_from(missing).unwrap_or(usize::MAX), "sequence number");
        notes.push(format!("{numbers} missing, the first is {first}: lines were lost"));
    }
    if twice > 0 {
        notes.push(format!("{} used more than once", counted(twice, "sequence number")));
    }
    notes
}

/// Returns a metric's name, if the shim can have written it.
fn named(metric: &str) -> Result<String, LineError> {
    if metric::is_name(metric) {
        return Ok(metric.to_owned());
    }
    Err(LineError::Malformed(format!("`{}` is no metric's name", labels::one_line(metric))))
}

fn missing(field: &str) -> LineError {
    LineError::Malformed(format!("`{field}` is missing"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _};

    use super::*;

    const BEGIN: &str = r#"{"v":1,"event":"begin","seq":0,"ns":0,"pid":7,"thread":1,"build":null,"shim":"0.1.0","sources":{"heap.live":"tracking allocator"}}"#;

    fn checkpoint(sequence: u64, process: u64, label: &str) -> String {
        format!(
            r#"{{"v":1,"event":"checkpoint","seq":{sequence},"ns":1,"pid":{process},"thread":1,"label":{label:?},"occurrence":1,"at":null,"metrics":{{"heap.live":{sequence}}}}}"#
        )
    }

    fn log(lines: &[&str]) -> Result<Measurement, LogError> {
        read(lines.join("\n").as_bytes(), "log.jsonl")
    }

    fn labels(measurement: &Measurement) -> Vec<&str> {
        measurement.checkpoints().iter().map(|checkpoint| measurement.label(checkpoint)).collect()
    }

    #[test]
    fn the_clock_on_the_wall_is_that_of_the_body_where_the_figures_begin_there() {
        let begin = BEGIN.replace("\"build\"", "\"clock\":1000,\"build\"");
        let body = r#"{"v":1,"event":"body","seq":1,"ns":40,"pid":7,"thread":2,"begins":"body","reason":null,"clock":7040}"#;
        assert_eq!(log(&[BEGIN, ""]).unwrap().began, None);
        assert_eq!(log(&[&begin, ""]).unwrap().began, Some(1000));
        assert_eq!(log(&[&begin, body, ""]).unwrap().began, Some(7000));
    }

    #[test]
    fn sources_may_come_when_a_library_is_loaded() {
        let sources =
            r#"{"v":1,"event":"sources","seq":1,"ns":0,"pid":7,"thread":1,"sources":{"gpu.0.live":"CUPTI"}}"#;
        let refused = r#"{"v":1,"event":"gpu_out_of_memory","seq":2,"ns":0,"pid":7,"thread":1,"device":0,"requested":5,"live":1}"#;
        let end = r#"{"v":1,"event":"end","seq":3,"ns":0,"pid":7,"thread":1}"#;
        let log = [BEGIN, sources, refused, end].join("\n") + "\n";
        let measurement = read(log.as_bytes(), "log.jsonl").unwrap();
        assert_eq!(measurement.sources["gpu.0.live"], "CUPTI");
        assert_eq!(measurement.sources["heap.live"], "tracking allocator");
        assert!(measurement.notes.is_empty(), "{:?}", measurement.notes);
    }

    #[test]
    fn a_checkpoint_of_the_tests_is_told_from_the_shims_own_of_that_label() {
        let own = checkpoint(1, 7, "start");
        let of_the_test = checkpoint(2, 7, "start").replace(r#""at":null"#, r#""at":"tests/a.rs:3""#);
        let measurement = log(&[BEGIN, &own, &of_the_test, &checkpoint(3, 7, "done")]).unwrap();
        assert_eq!(labels(&measurement), ["start", "start (test)", "done"]);
        assert!(measurement.checkpoints().iter().all(|checkpoint| checkpoint.occurrence == 1));
    }

    #[test]
    fn a_very_long_label_is_cut_and_two_with_the_same_start_stay_apart() {
        let long = ["one", "two"].map(|end| format!("{}{end}", "a".repeat(1_000_000)));
        let lines = [checkpoint(1, 7, &long[0]), checkpoint(2, 7, &long[1])];
        let measurement = log(&[BEGIN, &lines[0], &lines[1]]).unwrap();
        let [one, two] = labels(&measurement)[..] else { panic!("two labels") };
        assert!(one.len() <= labels::MOST_BYTES && two.len() <= labels::MOST_BYTES);
        assert_ne!(one, two);
    }

    #[test]
    fn a_log_with_more_metrics_than_the_shim_can_have_is_refused() {
        let line = |number: usize| {
            checkpoint(number as u64 + 1, 7, "step").replace("heap.live", &format!("made.up{number}"))
        };
        let read = |count: usize| {
            let lines: Vec<String> = (0..count).map(line).collect();
            let lines = std::iter::once(BEGIN).chain(lines.iter().map(String::as_str)).chain([""]);
            log(&lines.collect::<Vec<_>>()).err().map(|error| error.to_string())
        };
        assert_eq!(read(MOST_METRICS), None);
        assert!(read(MOST_METRICS + 1).unwrap().contains("more than 1024 metrics"));
    }

    #[test]
    fn a_whole_log_reads_without_notes() {
        let absent = r#"{"v":1,"event":"absent","seq":1,"ns":0,"pid":7,"thread":1,"metric":"cpu.peak","reason":"no /proc"}"#;
        let scope = r#"{"v":1,"event":"scope","seq":3,"ns":9,"pid":7,"thread":1,"label":"decoder","occurrence":2,"at":"a.rs:1","depth":0,"metrics":{"heap.live":-5,"time":null}}"#;
        let end = r#"{"v":1,"event":"end","seq":4,"ns":9,"pid":7,"thread":1}"#;
        let measurement = log(&[BEGIN, absent, &checkpoint(2, 7, "start"), scope, end]).unwrap();
        assert_eq!(measurement.notes, Vec::<String>::new());
        assert_eq!(measurement.sources["heap.live"], "tracking allocator");
        assert_eq!(measurement.absent["cpu.peak"], "no /proc");
        assert_eq!(labels(&measurement), ["start", "decoder"]);
        assert_eq!(measurement.checkpoints()[1].kind, Kind::Scope);
        let call = scope.replace(r#""seq":3"#, r#""seq":3,"traced":true"#);
        assert_eq!(log(&[BEGIN, &call]).unwrap().checkpoints()[0].kind, Kind::Call);
        assert_eq!(measurement.checkpoints()[1].occurrence, 2);
        assert_eq!(measurement.checkpoints()[1].nesting, Nesting { thread: 1, depth: 0 });
        assert_eq!(measurement.reading(0, 1), Some(-5));
        assert_eq!(measurement.column("time"), None, "a metric that was never read has no column");
        assert!(measurement.ended);
    }

    #[test]
    fn a_torn_last_line_is_noted_and_what_came_before_is_kept() {
        let torn = &checkpoint(2, 7, "lost")[..60];
        let measurement = log(&[BEGIN, &checkpoint(1, 7, "kept"), torn]).unwrap();
        assert_eq!(labels(&measurement), ["kept"]);
        assert_eq!(measurement.notes, ["line 3 is cut off: the process ended while it was being written"]);
    }

    #[test]
    fn a_line_of_a_gigabyte_is_refused_with_the_limit() {
        let long = std::io::repeat(b'a').take(1 << 28).chain(&b"\n"[..]);
        let error = read(BufReader::new(long), "log.jsonl").unwrap_err().to_string();
        assert!(error.starts_with("log.jsonl:1: the line is longer than 16.0 MiB"), "{error}");
        let endless = BufReader::with_capacity(1 << 16, std::io::repeat(b'a').take(1 << 40));
        let error = read(endless, "log.jsonl").unwrap_err().to_string();
        assert!(error.starts_with("log.jsonl:1: the log is longer than 512 MiB"), "{error}");
    }

    #[test]
    fn a_whole_last_line_without_its_newline_is_read() {
        let measurement = log(&[BEGIN, &checkpoint(1, 7, "kept")]).unwrap();
        assert_eq!(labels(&measurement), ["kept"]);
        assert_eq!(measurement.notes, Vec::<String>::new());
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error_that_names_file_and_line() {
        let error = log(&[BEGIN, r#"{"v":1,"event":"che"#, &checkpoint(1, 7, "a")]).unwrap_err().to_string();
        assert!(error.starts_with("log.jsonl:2: invalid line in the shim's log: EOF"), "{error}");
        let error =
            log(&[BEGIN, r#"{"v":1,"event":"checkpoint","seq":1,"pid":7}"#, ""]).unwrap_err().to_string();
        assert_eq!(error, "log.jsonl:2: invalid line in the shim's log: `label` is missing");
    }

    #[test]
    fn a_figure_that_does_not_fit_is_an_error_and_not_another_number() {
        let line = r#"{"v":1,"event":"checkpoint","seq":1,"pid":7,"label":"a","occurrence":1,"metrics":{"heap.live":99999999999999999999}}"#;
        assert!(matches!(log(&[BEGIN, line, ""]), Err(LogError::Malformed { line: 2, .. })));
    }

    #[test]
    fn a_newer_format_is_refused_even_if_its_lines_look_different() {
        let error = log(&[r#"{"v":2,"event":{"kind":"begin"}}"#, ""]).unwrap_err();
        assert!(matches!(error, LogError::Newer { version: 2, line: 1, .. }), "{error}");
        let error = log(&[r#"{"v":2,"event":"begin","seq":"zero"}"#, ""]).unwrap_err().to_string();
        assert_eq!(
            error,
            "log.jsonl:1: log format 2 is newer than this cargo-memprof reads (1); update cargo-memprof"
        );
    }

    #[test]
    fn unknown_events_and_fields_are_accepted() {
        let newer = r#"{"v":1,"event":"leak","seq":1,"ns":0,"pid":7,"metrics":["a","b"],"colour":"red"}"#;
        let field = r#"{"v":1,"event":"checkpoint","seq":2,"pid":7,"label":"a","occurrence":1,"metrics":{},"mood":[1]}"#;
        let measurement = log(&[BEGIN, newer, field]).unwrap();
        assert_eq!(labels(&measurement), ["a"]);
        assert_eq!(measurement.notes, ["ignored 1 line of a kind that this version does not know"]);
    }

    #[test]
    fn lines_of_forked_children_are_left_out_and_counted() {
        let measurement = log(&[
            BEGIN,
            &checkpoint(1, 7, "ours"),
            &checkpoint(1, 8, "child's"),
            &checkpoint(2, 7, "ours too"),
        ])
        .unwrap();
        assert_eq!(labels(&measurement), ["ours", "ours too"]);
        assert_eq!(measurement.notes, ["ignored 1 line of other processes (forked children)"]);
    }

    #[test]
    fn gaps_and_duplicates_of_the_sequence_are_noted() {
        let lines = [checkpoint(2, 7, "a"), checkpoint(2, 7, "b"), checkpoint(5, 7, "c")];
        let measurement = log(&[BEGIN, &lines[0], &lines[1], &lines[2]]).unwrap();
        assert_eq!(
            measurement.notes,
            [
                "3 sequence numbers missing, the first is 1: lines were lost",
                "1 sequence number used more than once"
            ]
        );
    }

    #[test]
    fn lines_in_another_order_than_their_numbers_are_no_gap() {
        let measurement = log(&[BEGIN, &checkpoint(2, 7, "second"), &checkpoint(1, 7, "first")]).unwrap();
        assert_eq!(labels(&measurement), ["first", "second"]);
        assert_eq!(measurement.notes, Vec::<String>::new());
    }

    #[test]
    fn a_label_may_hold_quotes_newlines_and_any_script() {
        let measurement = log(&[BEGIN, &checkpoint(1, 7, "a \"b\"\n層 ✓")]).unwrap();
        assert_eq!(labels(&measurement), ["a \"b\"\n層 ✓"]);
    }

    #[test]
    fn an_empty_log_is_a_measurement_of_nothing() {
        assert_eq!(read(&b""[..], "log.jsonl").unwrap(), Measurement::default());
    }
}
