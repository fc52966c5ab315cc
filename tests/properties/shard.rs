//! `shard.json` in a folder that `merge` gets from another machine.

use memprof_judge::results::shard_record::{ShardRecord, VERSION};
use memprof_plan::shard::Shard;
use memprof_plan::sharding::AllTests;

use super::Target;
use super::plan::{folder, write};

pub const TARGET: Target = Target {
    name: "shard",
    check,
    seeds,
    words: &["\"version\": 1", "\"shard\"", "\"all\"", "\"outcomes\": 3", "null", "\"1/2\"", "0", "{}"],
};

/// An error names the file. What is accepted survives being written.
pub fn check(bytes: &[u8]) {
    let (_guard, folder) = folder();
    write(&folder, "shard.json", bytes);
    match ShardRecord::read(&folder) {
        Err(error) => assert!(format!("{error:#}").contains("shard.json"), "{error:#}"),
        Ok(record) => {
            let record = record.expect("the file is there");
            let written = serde_json::to_vec(&record).expect("a record has a JSON form");
            assert_eq!(serde_json::from_slice::<ShardRecord>(&written).expect("it was written"), record);
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let record = |outcomes| ShardRecord {
        version: VERSION,
        shard: Shard { number: 1, count: 2 },
        all: AllTests::from_cells(std::iter::empty()),
        outcomes,
    };
    [None, Some(3)].map(|outcomes| serde_json::to_vec_pretty(&record(outcomes)).expect("JSON")).into()
}
