//! Errors that know what the user can do about them: the `help:` line below `error:`.

use std::error::Error;
use std::fmt;

use crate::file_lock::LockError;
use crate::regular_file;
use crate::user_error::UserError;

/// An error about the user's request, with advice.
pub trait Advice: Error + Send + Sync + 'static {
    /// What the user can do about it.
    fn help(&self) -> Option<String>;

    /// Wraps the error so that [`help`] and [`is_usage`] find its advice in a chain.
    fn advised(self) -> anyhow::Error
    where
        Self: Sized,
    {
        Advised(Box::new(self)).into()
    }
}

/// An error with advice. Displays as the error itself.
#[derive(Debug)]
pub struct Advised(Box<dyn Advice>);

impl Advised {
    /// Returns the error itself if it is of this type.
    pub fn downcast_ref<E: Advice>(&self) -> Option<&E> {
        let error: &(dyn Error + 'static) = &*self.0;
        error.downcast_ref()
    }
}

impl fmt::Display for Advised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for Advised {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Returns the advice of the first error in the chain that has any.
pub fn help(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let user_error = || cause.downcast_ref::<UserError>().and_then(|user_error| user_error.help.clone());
        let of_lock = || cause.downcast_ref::<LockError>().and_then(LockError::help);
        cause
            .downcast_ref::<Advised>()
            .and_then(|advised| advised.0.help())
            .or_else(user_error)
            .or_else(of_lock)
    })
}

/// Whether the user's request caused the error, and not the machine or this program.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.is::<Advised>() || cause.is::<LockError>() || regular_file::is_unsuitable(cause))
}

/// Returns the error of this type in the chain.
pub fn find<E: Advice>(error: &anyhow::Error) -> Option<&E> {
    error.chain().filter_map(<dyn Error>::downcast_ref::<Advised>).find_map(Advised::downcast_ref)
}

/// Whether an error in the chain is of this type.
pub fn has<E: Advice>(error: &anyhow::Error) -> bool {
    find::<E>(error).is_some()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no such ref")]
    struct NoRef;

    impl Advice for NoRef {
        fn help(&self) -> Option<String> {
            Some("fetch it".to_owned())
        }
    }

    #[test]
    fn advice_is_found_below_a_context() {
        let error = Err::<(), _>(NoRef.advised()).context("main").unwrap_err();
        assert_eq!(format!("{error:#}"), "main: no such ref");
        assert_eq!(help(&error).as_deref(), Some("fetch it"));
        assert!(is_usage(&error) && has::<NoRef>(&error));
        assert!(!is_usage(&anyhow::anyhow!("the disk is full")));
        let folder = regular_file::followed::read("/").context("an overlay").unwrap_err();
        assert!(is_usage(&folder), "{folder:?}");
        assert!(!is_usage(&regular_file::followed::read("/no/such/file").unwrap_err().into()));
    }
}
