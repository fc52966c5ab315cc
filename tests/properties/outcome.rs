//! `outcome.json`, beside a log.

use memprof_judge::results::outcome::RunRecord;

use super::comparing::{passed, plan};
use super::plan::{folder, read, write};
use super::{Target, log};

pub const TARGET: Target = Target {
    name: "outcome",
    check,
    seeds,
    words: &[
        "\"failed\"",
        "\"timeout\"",
        "\"killed\"",
        "\"out_of_memory\"",
        "\"build_failed\"",
        "\"not_in_this_ref\"",
        "\"ignored\"",
        "\"refused\"",
        "\"exit_code\":-1",
        "\"limit_seconds\":1",
        "\"signal\":9",
        "\"revision\":1",
        "\"repeat\":1",
        "\"withdrawn\":{\"heap.live\":\"x\"}",
        "\"message\":\"a\\nb\"",
        "\"marks\":[\"m\"]",
        "\"devices\":[]",
        "null",
        "\"version\":2",
    ],
};

/// An outcome survives being written. An error names the file; a report can show whatever is accepted.
pub fn check(bytes: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<RunRecord>(bytes) {
        let written = serde_json::to_vec(&record).expect("an outcome has a JSON form");
        assert_eq!(serde_json::from_slice::<RunRecord>(&written).expect("it was written"), record);
    }
    let (_guard, folder) = folder();
    write(&folder, "plan.json", &serde_json::to_vec(&plan()).expect("a plan has a JSON form"));
    let baseline = serde_json::to_vec(&passed(0)).expect("an outcome has a JSON form");
    write(&folder, "cells/0-main/forward/0/outcome.json", &baseline);
    write(&folder, "cells/0-main/forward/0/log.jsonl", log::LOG.as_bytes());
    write(&folder, "cells/1-pr/forward/0/outcome.json", bytes);
    write(&folder, "cells/1-pr/forward/0/log.jsonl", log::LOG.as_bytes());
    read(&folder, &["outcome.json"]);
}

fn seeds() -> Vec<Vec<u8>> {
    let passed = serde_json::to_string(&passed(1)).expect("an outcome has a JSON form");
    let other = |status: &str| passed.replace("\"outcome\":\"ok\"", status);
    let failed = other(r#""outcome":"failed","exit_code":101,"message":"a panic\n<b>&"#);
    let killed =
        other(r#""outcome":"killed","signal":11,"message":"x","marks":["m"],"withdrawn":{"heap.live":"y"}"#);
    [passed.clone(), failed + "\"", killed].map(Into::into).into()
}
