//! The names of functions in a source file: their types and conditions, and functions among the
//! tokens of macros.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;

use crate::trace::lines;
use memprof_plan::trace_pattern::{TypeName, squeezed};

/// Returns the conditions among attributes: `cfg(unix)`.
pub(crate) fn conditions(attributes: &[syn::Attribute]) -> impl Iterator<Item = String> {
    let conditions = attributes.iter().filter(|attribute| lines::is_condition(attribute));
    conditions.map(|attribute| squeezed(&attribute.meta.to_token_stream().to_string()))
}

/// Returns a type's name, without its modules.
pub(crate) fn named(of: &syn::Type) -> TypeName {
    match of {
        syn::Type::Path(path) => named_path(&path.path),
        syn::Type::Group(group) => named(&group.elem),
        syn::Type::Paren(paren) => named(&paren.elem),
        syn::Type::Reference(reference) => {
            let of = named(&reference.elem);
            let mutable = if reference.mutability.is_some() { "mut " } else { "" };
            let lifetime = reference.lifetime.as_ref().map(|one| format!("{one} ")).unwrap_or_default();
            let whole = format!("&{lifetime}{mutable}{}", of.whole);
            TypeName { bare: format!("&{mutable}{}", of.bare), whole: squeezed(&whole) }
        }
        other => {
            let whole = squeezed(&other.to_token_stream().to_string());
            TypeName { bare: whole.clone(), whole }
        }
    }
}

/// Returns the name of a trait, or of a type that is not a reference.
pub(crate) fn named_path(path: &syn::Path) -> TypeName {
    let Some(last) = path.segments.last() else {
        return TypeName { bare: String::new(), whole: String::new() };
    };
    let (bare, whole) = (last.ident.to_string(), squeezed(&last.to_token_stream().to_string()));
    TypeName { bare: plain(&bare), whole: plain(&whole) }
}

/// Returns `match` for `r#match`.
pub(crate) fn plain(name: &str) -> String {
    name.trim_start_matches("r#").to_owned()
}

/// Returns the names of functions among a macro's tokens: `fn name`, `fn $name`.
pub(crate) fn functions_in(tokens: TokenStream) -> Vec<(String, Span)> {
    let mut found = Vec::new();
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) => found.extend(functions_in(group.stream())),
            TokenTree::Ident(word) if word == "fn" => match trees.peek() {
                Some(TokenTree::Ident(name)) => found.push((name.to_string(), name.span())),
                Some(TokenTree::Punct(dollar)) if dollar.as_char() == '$' => {
                    let place = dollar.span();
                    trees.next();
                    if let Some(TokenTree::Ident(name)) = trees.peek() {
                        found.push((format!("${name}"), place));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    found
}
