//! The places in the checkout that the variables of a test lead to.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};

use memprof_support::paths;

/// Where the variables of an executable lead to, each with the names of these variables.
#[derive(Default)]
pub(crate) struct Variables<'a> {
    /// Files and folders, relative to the checkout.
    places: BTreeMap<Utf8PathBuf, BTreeSet<&'a str>>,
    /// The last parts of relative paths, which the code may join to any folder.
    names: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Variables<'a> {
    /// Takes the names and values of the variables that an executable of this package in the checkout gets.
    pub fn new(
        variables: impl Iterator<Item = (&'a String, &'a String)>,
        package: &Utf8Path,
        checkout: &Utf8Path,
    ) -> Self {
        let mut found = Self::default();
        for (name, value) in variables {
            // A list of paths has colons.
            for value in value.split(':').filter(|value| !value.is_empty()).map(Utf8Path::new) {
                if value.is_absolute() {
                    let place = paths::without_dots(value);
                    found.add(name, place.strip_prefix(checkout).ok());
                } else {
                    let below_root = paths::without_dots(value);
                    found.add(name, Some(&paths::without_dots(&package.join(value))));
                    found.add(name, Some(&*below_root).filter(|place| *place != ""));
                    if let Some(last) = value.file_name() {
                        found.names.entry(last).or_default().insert(name);
                    }
                }
            }
        }
        // Tests start there, so that says nothing new.
        found.places.remove(package);
        found
    }

    fn add(&mut self, name: &'a str, place: Option<&Utf8Path>) {
        if let Some(place) = place {
            self.places.entry(place.to_owned()).or_default().insert(name);
        }
    }

    /// Returns the places that a variable leads to: a file itself, and folders above it. `has_name` says whether the
    /// executable may contain a text.
    pub fn leading_to<'p>(&self, path: &'p Utf8Path, has_name: impl Fn(&str) -> bool) -> Vec<&'p Utf8Path> {
        // Cargo sets many for each test, and few tests look at them. Those of the user are there to be looked at, perhaps
        // by a program that the test starts.
        let is_used =
            |names: &BTreeSet<&str>| names.iter().any(|name| !name.starts_with("CARGO") || has_name(name));
        let leads = |place: &&Utf8Path| {
            let by_name = place.file_name().filter(|_| *place == path).and_then(|last| self.names.get(last));
            self.places.get(*place).is_some_and(is_used) || by_name.is_some_and(is_used)
        };
        path.ancestors().filter(leads).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leading_to(value: &str, path: &str) -> Vec<String> {
        let variables = BTreeMap::from([("DATA".to_owned(), value.to_owned())]);
        let variables = Variables::new(variables.iter(), "crates/app".into(), "/c".into());
        let has_name = |_: &str| panic!("only for cargo's own");
        variables.leading_to(path.into(), has_name).into_iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_variable_leads_to_a_file_and_to_all_that_is_in_a_folder() {
        let file = "crates/leaf/data/a.json";
        for value in [
            "/c/crates/leaf/data",
            "/c/crates/app/../leaf/data/",
            "../leaf/data",
            "crates/leaf/data",
            "/usr/share:/c/crates/leaf/data",
        ] {
            assert_eq!(leading_to(value, file), ["crates/leaf/data"], "{value}");
        }
        for value in ["/c/crates/leaf/data/a.json", "data/a.json", "a.json"] {
            assert_eq!(leading_to(value, file), [file], "{value}");
        }
        assert_eq!(leading_to("/c", file), [""]);
        assert_eq!(leading_to("..", file), ["crates"]);
        let nowhere =
            ["", "1", ".", "/c/crates/app", "/elsewhere/a.json", "/cc/crates/leaf", "leaf", "b.json"];
        for value in nowhere {
            assert!(leading_to(value, file).is_empty(), "{value}");
        }
    }

    #[test]
    fn a_variable_of_cargo_counts_only_for_an_executable_that_names_it() {
        let variables = BTreeMap::from([("CARGO_PKG_README".to_owned(), "README.md".to_owned())]);
        let variables = Variables::new(variables.iter(), "app".into(), "/c".into());
        let leads =
            |names: &str| !variables.leading_to("app/README.md".into(), |name| names == name).is_empty();
        assert!(leads("CARGO_PKG_README") && !leads("CARGO_PKG_NAME"));
    }
}
