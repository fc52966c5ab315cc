//! The crates and modules of frames. A trait of the user may be on a type of another crate: then the function's path
//! begins with that type.

use std::collections::BTreeSet;

use crate::why::frame::{Frame, Place};
use crate::why::function_path::{crate_name, module, normalised, paths, readable};

/// The crates with code in the user's repository.
#[derive(Debug, Default)]
pub(super) struct OwnCrates(BTreeSet<String>);

impl OwnCrates {
    /// Takes them from functions of no trait. Only the crate of a type may give it such functions.
    pub(super) fn from_frames<'a>(frames: impl Iterator<Item = &'a Frame>) -> Self {
        let own = frames.filter(|frame| frame.checkout_path().is_some()).filter_map(|frame| {
            let path = normalised(frame.function.as_deref()?);
            let name = paths(&path).next().filter(|_| !path.contains(" as ")).map(crate_name)?;
            (!is_std(name)).then(|| name.to_owned())
        });
        Self(own.collect())
    }

    /// Returns the name of a frame's crate or package.
    pub(super) fn crate_name(&self, frame: &Frame) -> String {
        match (&frame.place, &frame.function) {
            (Some(Place::Registry { name, .. } | Place::Git { name, .. }), _) => name.clone(),
            (Some(Place::Std(_)), _) => "std".to_owned(),
            (Some(Place::Checkout(_) | Place::Generated { .. }), Some(function)) => {
                crate_name(&self.own_path(function)).to_owned()
            }
            (_, Some(function)) => crate_name(&readable(function)).to_owned(),
            (_, None) => frame.key(),
        }
    }

    /// Returns the path of a frame's module.
    pub(super) fn module(&self, frame: &Frame) -> String {
        match (&frame.place, &frame.function) {
            (Some(Place::Checkout(_) | Place::Generated { .. }), Some(function)) => {
                module(&self.own_path(function))
            }
            (_, Some(function)) => module(function),
            (_, None) => frame.key(),
        }
    }

    /// Returns a function's path from where the user's code is named: `app::Ext>::f` of `<Vec<u8> as app::Ext>::f`.
    /// Generic arguments come last.
    fn own_path(&self, function: &str) -> String {
        let [short, whole] = [normalised(function), readable(function)];
        let named = || paths(&short).chain(paths(&whole));
        let own = named().find(|path| self.0.contains(crate_name(path)));
        let own = own.or_else(|| named().find(|path| !is_std(crate_name(path))));
        own.unwrap_or(&short).to_owned()
    }
}

fn is_std(name: &str) -> bool {
    matches!(name, "std" | "core" | "alloc")
}
