//! A function of a dependency that takes the same bytes more wherever it is called is one cause, and not one for each
//! caller. `insta` reads the output of `cargo metadata` in each test that has a snapshot, for example.

use std::collections::BTreeMap;

use crate::why::class::Class;
use crate::why::difference::{Group, GroupKind};
use crate::why::frame::Owner;
use crate::why::reasons::Reason;

/// What moved memory in a test, and where.
pub(super) struct Caller<'f, K> {
    /// What callers of one function have in common: the candidate, the metric and the amount.
    pub change: K,
    pub reason: &'f mut Reason,
    pub site: &'f mut Group,
}

/// Gives callers the called function as their reason, if several places call it and the diff has nothing to do with one
/// of them. It cannot be the cause at the others then.
pub(super) fn merge<'f, K: Ord>(all: impl Iterator<Item = Caller<'f, K>>) {
    let mut by_callee: BTreeMap<(K, String), Vec<(&mut Reason, &mut Group)>> = BTreeMap::new();
    for Caller { change, reason, site } in all {
        if let (Reason::Hunk(_) | Reason::Code(_), Some(callee)) = (&*reason, callee(site)) {
            let function = site.stack[callee].name();
            by_callee.entry((change, function)).or_default().push((reason, site));
        }
    }
    for ((_, function), callers) in by_callee {
        let is_unchanged = callers.iter().any(|(reason, _)| matches!(reason, Reason::Code(_)));
        if is_unchanged && callers.iter().any(|(reason, _)| *reason != callers[0].0) {
            let location = called(callers[0].1).location().map(str::to_owned);
            let common = Reason::Code(location.unwrap_or(function));
            for (reason, site) in callers {
                *reason = common.clone();
                *site = called(site);
            }
        }
    }
}

/// Returns the index of the dependency's function that a site in the user's code calls.
fn callee(site: &Group) -> Option<usize> {
    let inside_of = site.is_in_checkout().then(|| &site.stack[..site.first])?;
    let inside = inside_of.iter().rposition(|frame| frame.owner() != Owner::Std)?;
    (site.stack[inside].owner() == Owner::Dependency).then_some(inside)
}

/// Returns the site as that of the function that it calls.
fn called(site: &Group) -> Group {
    let first = callee(site).unwrap_or(site.first);
    let frame = &site.stack[first];
    let kind = GroupKind::Sites { name: frame.name(), location: frame.location() };
    Group { kind, first, class: Some(Class::Unchanged), ..site.clone() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::why::frame::{Frame, Place};
    use crate::why::reasons::tests::{changed, difference, hunk};

    fn frame(function: &str, place: Place) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            place: Some(place),
            line: Some(7),
            is_inlined: false,
            address: None,
        }
    }

    /// The change of a test in this line, which calls `function` of a dependency.
    fn found(line: u32, amount: i64, function: &str, class: &Class) -> (i64, Reason, Group) {
        let site = difference(&[(line, amount, class.clone())]).groups.remove(0);
        let [name, version, path] = ["insta", "1.49.0", "src/env.rs"].map(str::to_owned);
        let stack = vec![
            frame("alloc::vec::Vec<T>::push", Place::Std("alloc/src/vec/mod.rs".to_owned())),
            frame(function, Place::Registry { name, version, path }),
            frame("core::ops::FnOnce::call_once", Place::Std("core/src/ops/function.rs".to_owned())),
            frame("tests::one", Place::Checkout("src/lib.rs".to_owned())),
        ];
        let reason = match class {
            Class::Unchanged => Reason::Code(format!("src/lib.rs:{line}")),
            _ => Reason::Hunk(hunk(line)),
        };
        let stack = stack.into_iter().map(Arc::new).collect();
        (amount, reason, Group { stack, first: 3, ..site })
    }

    /// The reasons and sites after the merge.
    fn merged(mut all: Vec<(i64, Reason, Group)>) -> (Vec<Reason>, Vec<Group>) {
        merge(all.iter_mut().map(|(amount, reason, site)| Caller { change: *amount, reason, site }));
        all.into_iter().map(|(_, reason, site)| (reason, site)).unzip()
    }

    #[test]
    fn a_function_that_takes_as_much_from_all_callers_is_the_reason() {
        let of = |line, class: &Class| found(line, 19_956, "insta::env::workspace", class);
        let function = Reason::Code("insta 1.49.0 src/env.rs:7".to_owned());
        let (reasons, sites) =
            merged(vec![of(3, &Class::Unchanged), of(5, &Class::Unchanged), of(9, &changed(9))]);
        assert_eq!(reasons, vec![function; 3]);
        assert_eq!(sites[2].name(), "insta::env::workspace");
        assert_eq!(sites[2].class, Some(Class::Unchanged));
    }

    #[test]
    fn callers_keep_their_reasons_if_the_diff_may_be_the_cause() {
        let reasons = |all| merged(all).0;
        let of = |line, amount, class: &Class| found(line, amount, "insta::env::workspace", class);
        let apart = [Reason::Hunk(hunk(3)), Reason::Hunk(hunk(5))];
        assert_eq!(reasons(vec![of(3, 8, &changed(3)), of(5, 8, &changed(5))]), apart);
        let code = |line| Reason::Code(format!("src/lib.rs:{line}"));
        // Other bytes, one place alone, another function.
        assert_eq!(
            reasons(vec![of(3, 8, &Class::Unchanged), of(5, 9, &Class::Unchanged)]),
            [code(3), code(5)]
        );
        assert_eq!(
            reasons(vec![of(3, 8, &Class::Unchanged), of(3, 8, &Class::Unchanged)]),
            [code(3), code(3)]
        );
        let other = found(5, 8, "insta::settings::bind", &Class::Unchanged);
        assert_eq!(reasons(vec![of(3, 8, &Class::Unchanged), other]), [code(3), code(5)]);
    }
}
