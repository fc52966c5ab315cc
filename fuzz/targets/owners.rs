#![no_main]

#[path = "../../tests/properties/mod.rs"]
mod properties;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

libfuzzer_sys::fuzz_target!(init: properties::write_seeds("owners", CORPUS), |bytes: &[u8]| {
    properties::owners::check(bytes);
});
