//! Parse, act, exit.
fn main() {}
