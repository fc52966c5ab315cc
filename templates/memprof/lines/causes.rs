//! What may make figures vary from run to run, for the log's end: random numbers, and threads.

use std::io;

use crate::heap::counts;
use crate::log::run_log::Log;
use crate::platform::random;

pub(crate) fn write(log: &mut Log, nanoseconds: u64) -> io::Result<()> {
    log.write("causes", nanoseconds, |json| {
        json.text("random", if random::are_same() { "same" } else { "own" });
        if let Some(asked) = random::asked() {
            json.figure("hash_keys", asked.hash_keys);
            json.figure("random_numbers", asked.others);
        }
        if let Some(threads) = counts::allocating_threads() {
            json.figure("threads", threads);
        }
    })
}
