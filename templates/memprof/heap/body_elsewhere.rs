//! Other platforms do not mark where a test's body begins.

use crate::heap::listener::Listener;

pub(crate) fn plant(_addresses: &str, _listener: &'static Listener) -> Result<(), &'static str> {
    Err("this platform's code cannot be changed")
}

pub(crate) fn abandon() {}
