//! Functions that cannot be traced because of their signature or attributes: they run at another
//! time than they are called, in the compiler, or have no statements.

/// Returns why a function with these attributes and this signature cannot be traced; `None` if it
/// can. A test is traced only if a pattern names it.
pub(crate) fn reason(
    attributes: &[syn::Attribute],
    signature: &syn::Signature,
    is_named: bool,
) -> Option<String> {
    let reason = if is_marked(attributes, &["naked"]) {
        "it is naked: its body is assembly"
    } else if signature.constness.is_some() {
        "it is a `const fn`, which the compiler may run"
    } else if signature.asyncness.is_some() {
        "it is an `async fn`, whose body interleaves with other tasks"
    } else if let Some(abi) = signature.abi.as_ref().filter(|abi| !is_rust(abi)) {
        let name = abi.name.as_ref().map_or_else(|| "C".to_owned(), syn::LitStr::value);
        return Some(format!(
            "it is an `extern \"{name}\"` function, which a signal handler or code before `main` may call"
        ));
    } else if !is_named && is_test(attributes) {
        "it is a test, which `start` and `done` already enclose; its name traces it"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// Whether attributes make a function a test.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    is_marked(attributes, &["test", "bench"])
}

/// Whether an attribute has one of these names: `#[test]`, `#[tokio::test]`, `#[unsafe(naked)]`.
fn is_marked(attributes: &[syn::Attribute], names: &[&str]) -> bool {
    attributes.iter().any(|attribute| {
        let last = attribute.path().segments.last();
        let of_list = match &attribute.meta {
            syn::Meta::List(marked) if attribute.path().is_ident("unsafe") => Some(marked.tokens.to_string()),
            _ => None,
        };
        names.iter().any(|name| {
            last.is_some_and(|segment| segment.ident == name) || of_list.as_deref() == Some(*name)
        })
    })
}

fn is_rust(abi: &syn::Abi) -> bool {
    abi.name.as_ref().is_some_and(|name| name.value() == "Rust")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(text: &str) -> Option<String> {
        let function: syn::ItemFn = syn::parse_str(text).unwrap();
        reason(&function.attrs, &function.sig, false)
    }

    #[test]
    fn what_cannot_be_traced_says_why() {
        for (text, said) in [
            ("const fn f() {}", "`const fn`"),
            ("async fn f() {}", "interleaves"),
            ("extern fn f() {}", "`extern \"C\"`"),
            ("unsafe extern \"system\" fn f() {}", "`extern \"system\"`"),
            ("#[naked] fn f() {}", "naked"),
            ("#[unsafe(naked)] fn f() {}", "naked"),
            ("#[test] fn f() {}", "is a test"),
            ("#[tokio::test] fn f() {}", "is a test"),
        ] {
            let reason = reason_of(text).expect(text);
            assert!(reason.contains(said), "{text}: {reason}");
        }
    }

    #[test]
    fn a_test_is_traced_by_its_name() {
        let test: syn::ItemFn = syn::parse_str("#[test] fn f() {}").unwrap();
        assert!(reason(&test.attrs, &test.sig, false).unwrap().contains("its name traces it"));
        assert_eq!(reason(&test.attrs, &test.sig, true), None);
        let test: syn::ItemFn = syn::parse_str("#[tokio::test] async fn f() {}").unwrap();
        assert!(reason(&test.attrs, &test.sig, true).unwrap().contains("interleaves"));
    }

    #[test]
    fn what_only_looks_like_it_can_be_traced() {
        for text in [
            "fn test() {}",
            "extern \"Rust\" fn f() {}",
            "unsafe fn f() {}",
            "#[unsafe(no_mangle)] fn f() {}",
        ] {
            assert_eq!(reason_of(text), None, "{text}");
        }
    }
}
