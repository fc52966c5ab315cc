//! Who is told when the test's body begins and ends.

/// Functions that are called on the test's thread.
pub(crate) struct Listener {
    pub(crate) begins: fn(),
    pub(crate) ends: fn(),
}
