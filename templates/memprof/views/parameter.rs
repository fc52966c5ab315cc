//! The parameters of a test, as `--param` and `params:` give them.

use std::fmt;
use std::str::FromStr;

use crate::platform::process;

/// Returns the value of a parameter of this test (`--param batch=8,64`), if it has one.
///
/// `None` means that the test runs without this parameter, or outside a run of `cargo memprof`. So
/// give a default:
///
/// ```ignore
/// let batch = memprof::param("batch").unwrap_or(8);
/// ```
///
/// # Panics
///
/// The value is not a `T`. A test that went on with a default would measure something else.
#[track_caller]
pub fn param<T: FromStr>(name: &str) -> Option<T>
where
    T::Err: fmt::Display,
{
    if !process::is_recording() {
        return None;
    }
    let value = std::env::var_os(name)?;
    let text = value.to_string_lossy();
    match text.parse() {
        Ok(parsed) => Some(parsed),
        Err(error) => panic!(
            "the parameter '{name}' is '{text}', which is not a valid {}: {error}",
            std::any::type_name::<T>()
        ),
    }
}
