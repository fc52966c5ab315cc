#![no_main]

#[path = "../../tests/properties/mod.rs"]
mod properties;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

libfuzzer_sys::fuzz_target!(init: properties::write_seeds("lock_text", CORPUS), |bytes: &[u8]| {
    properties::lock_text::check(bytes);
});
