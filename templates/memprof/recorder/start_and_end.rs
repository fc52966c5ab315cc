//! The beginning and the end of a run: of the log, of the process, and of the test's body.

use crate::blocks::harness;
use crate::heap::body;
use crate::heap::listener::Listener;
use crate::lines::causes;
use crate::log::environment::Environment;
use crate::log::run_log::Log;
use crate::log::terminal;
use crate::platform::process::{self, is_own_process};
use crate::platform::random;
use crate::recorder::gpu_handlers;
use crate::recorder::holding::{hold, hold_at_any_time};
use crate::sources::pool_metrics;

static LISTENER: Listener = Listener { begins: begin_body, ends: end_body };

/// Opens the log and writes its first lines, up to `start`. Returns whether there is a log then.
pub(crate) fn start(environment: Environment) -> bool {
    let mut recorder = match hold() {
        Some(recorder) => recorder,
        None => return false,
    };
    match Log::open(&environment.log, environment.key) {
        Ok(log) => recorder.log = Some(log),
        Err(error) => {
            let path = std::path::Path::new(&environment.log).display();
            terminal::warn(format_args!(
                "nothing is recorded, because the log {path} cannot be opened: {error}"
            ));
            return false;
        }
    }
    recorder.print = environment.print;
    recorder.sources.gpu.set_handlers(gpu_handlers::HANDLERS);
    recorder.open(&environment);
    recorder.set_up_calls(&environment);
    harness::expect(&environment.harness_test);
    environment.random_seed.into_iter().for_each(random::follow);
    if environment.trims() {
        pool_metrics::trim_always();
    }
    let body = environment.body().map(|found| found.and_then(|addresses| body::plant(addresses, &LISTENER)));
    // The settings hold memory of the tracked heap.
    drop(environment);
    recorder.begin(body);
    process::set_recording(recorder.log.is_some());
    recorder.log.is_some()
}

/// The test's body begins now, on this thread: `start`.
fn begin_body() {
    if is_own_process() {
        if let Some(mut recorder) = hold_at_any_time() {
            recorder.begin_body();
        }
    }
}

/// The test's body has ended.
fn end_body() {
    if let Some(mut recorder) = hold() {
        recorder.ended = Some(recorder.nanoseconds());
    }
}

/// Logs `done` and the last line.
pub(crate) fn finish() {
    if !is_own_process() {
        return;
    }
    if let Some(mut recorder) = hold_at_any_time() {
        recorder.begin_with_process("the test's body did not begin");
        recorder.sources.heap.end();
        recorder.sources.gpu.end();
        let mut mark = recorder.mark_of_checkpoint();
        mark.time = recorder.ended.unwrap_or(mark.time);
        recorder.log_checkpoint("done", None, &mark);
        recorder.log_calls();
        recorder.log_lines();
        let nanoseconds = recorder.nanoseconds();
        let started = recorder.started;
        recorder.log(|_, log| causes::write(log, nanoseconds));
        recorder.log_stacks(|stacks, log, _| stacks.end(log, nanoseconds, started));
        recorder.log(|_, log| log.end(nanoseconds));
        recorder.log = None;
        process::set_recording(false);
    }
}
