//! The error of a search whose range has an end without a figure.

/// An end of the range has no figure, so there is nothing to search for.
#[derive(Debug, thiserror::Error)]
#[error("{end} cannot be measured: {reason}")]
pub struct EndWithoutFigure {
    /// The name that the user gave to the end, and its short hash.
    pub end: String,
    /// Why it has no figure.
    pub reason: String,
    /// What may help.
    pub hints: Vec<String>,
}
