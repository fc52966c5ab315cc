//! Symbols of functions, as people read them: without hashes and without versions of crates.

use rustc_demangle::try_demangle;

/// The name of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionName {
    /// The path, with generic arguments if the symbol has them.
    pub path: String,
    /// The module that it was written in, such as `alloc::vec`. The first part is the crate.
    pub module: Option<String>,
}

impl FunctionName {
    /// Reads a symbol. One that no Rust compiler made is kept as it is, and has no module.
    pub fn new(symbol: &str) -> Self {
        let Ok(demangled) = try_demangle(symbol) else {
            return Self { path: symbol.to_owned(), module: None };
        };
        let path = readable(&format!("{demangled:#}"));
        let module = match v0_module(symbol) {
            Module::Known(module) => Some(module),
            Module::OfTrait => module_by_name(&path, true),
            Module::NotInSymbol => module_by_name(&path, false),
        };
        Self { path, module }
    }
}

/// Whether a Rust compiler made this symbol.
pub(crate) fn is_mangled(symbol: &str) -> bool {
    try_demangle(symbol).is_ok()
}

/// Writes `{closure}` for `{{closure}}`, and `Vec<T>::push` for `<Vec<T>>::push`.
fn readable(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let marked = after.split_once("}}").filter(|(inner, _)| !inner.contains(['{', '}']));
        if let Some((inner, behind)) = marked {
            text.extend(["{", inner, "}"]);
            rest = behind;
        } else {
            text.push_str("{{");
            rest = after;
        }
    }
    text.push_str(rest);
    match qualified(&text) {
        Some((of, None, behind)) if behind.starts_with("::") && is_path(of) => format!("{of}{behind}"),
        _ => text,
    }
}

/// Splits `<TYPE as TRAIT>BEHIND` or `<TYPE>BEHIND`.
fn qualified(path: &str) -> Option<(&str, Option<&str>, &str)> {
    let inner = path.strip_prefix('<')?;
    let mut depth = 0_usize;
    let mut as_at = None;
    for (at, letter) in inner.char_indices() {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if inner[..at].ends_with('-') => {}
            '>' if depth == 0 => {
                let of = &inner[..as_at.unwrap_or(at)];
                let the_trait = as_at.map(|as_at: usize| &inner[as_at + " as ".len()..at]);
                return Some((of, the_trait, &inner[at + 1..]));
            }
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && as_at.is_none() && inner[at..].starts_with(" as ") => as_at = Some(at),
            _ => {}
        }
    }
    None
}

/// Whether a type is named by a path, unlike `[T]`, `&T` or `dyn T`.
fn is_path(of: &str) -> bool {
    let name = of.split(['<', ':']).next().unwrap_or_default();
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Guesses the module from a readable path: its beginning, up to the first type or the function.
fn module_by_name(path: &str, prefers_trait: bool) -> Option<String> {
    if let Some((of, the_trait, _)) = qualified(path) {
        let of = || module_by_name(of, false);
        let by_trait = || the_trait.and_then(|the_trait| module_by_name(the_trait, false));
        return if prefers_trait { by_trait().or_else(of) } else { of().or_else(by_trait) };
    }
    let is_plain = |part: &&str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_lowercase() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    let parts: Vec<&str> = path.split("::").collect();
    let plain = parts.iter().copied().take_while(is_plain).count();
    // The function itself is the last plain part, unless a type or something generic follows.
    let is_function_plain = parts.get(plain).is_none_or(|next| next.starts_with('{'));
    let modules = &parts[..plain - usize::from(is_function_plain && plain > 0)];
    (!modules.is_empty()).then(|| modules.join("::"))
}

/// What a symbol says about the module.
#[derive(Debug, PartialEq, Eq)]
enum Module {
    Known(String),
    /// Is that of a trait, whose name comes after a type.
    OfTrait,
    /// The symbol has the older format, or an unknown one.
    NotInSymbol,
}

/// Reads the module from a symbol in the v0 format. Unlike the path, the symbol says in which module
/// an `impl` is, so that a trait's function belongs to the crate that implements it.
///
/// The format: <https://doc.rust-lang.org/rustc/symbol-mangling/v0.html>
fn v0_module(symbol: &str) -> Module {
    let Some(symbol) = symbol.strip_prefix("_R").or_else(|| symbol.strip_prefix("__R")) else {
        return Module::NotInSymbol;
    };
    let mut reader = V0 { symbol: symbol.as_bytes(), at: 0, left: 200, modules: Vec::new() };
    match reader.path() {
        Some(Part::Trait) => Module::OfTrait,
        Some(_) if !reader.modules.is_empty() => Module::Known(reader.modules.join("::")),
        Some(_) | None => Module::NotInSymbol,
    }
}

/// What a path turned out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A crate or a module; more modules may follow.
    Module,
    /// Something in a module. The modules are complete.
    Inside,
    /// Something in a trait.
    Trait,
}

struct V0<'symbol> {
    symbol: &'symbol [u8],
    at: usize,
    /// How many more paths may be read; a damaged symbol may have circles.
    left: usize,
    modules: Vec<&'symbol str>,
}

impl<'symbol> V0<'symbol> {
    /// Reads a path as far as needed, and collects its modules.
    fn path(&mut self) -> Option<Part> {
        self.left = self.left.checked_sub(1)?;
        match self.next()? {
            b'C' => {
                let name = self.identifier()?;
                self.modules.push(name);
                Some(Part::Module)
            }
            b'N' => {
                let namespace = self.next()?;
                let part = self.path()?;
                if part != Part::Module {
                    return Some(part);
                }
                let name = self.identifier()?;
                // Types and modules share a namespace, but types begin with a capital.
                if namespace != b't' || name.starts_with(char::is_uppercase) {
                    return Some(Part::Inside);
                }
                self.modules.push(name);
                Some(Part::Module)
            }
            // An `impl`: the module that it is in comes first.
            b'M' | b'X' => {
                self.disambiguator()?;
                self.path().map(|_| Part::Inside)
            }
            b'I' => self.path().map(|part| if part == Part::Trait { part } else { Part::Inside }),
            b'Y' => Some(Part::Trait),
            b'B' => {
                let target = self.base_62()?;
                let back = std::mem::replace(&mut self.at, target);
                let part = self.path();
                self.at = back;
                part
            }
            _ => None,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.symbol.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn next_is(&mut self, byte: u8) -> bool {
        let is_next = self.symbol.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn disambiguator(&mut self) -> Option<()> {
        if self.next_is(b's') {
            self.base_62()?;
        }
        Some(())
    }

    /// Reads a number: `_` is 0, `0_` is 1, and so on.
    fn base_62(&mut self) -> Option<usize> {
        let mut number = 0_usize;
        for digits in 0.. {
            let digit = match self.next()? {
                b'_' => return if digits == 0 { Some(0) } else { number.checked_add(1) },
                digit @ b'0'..=b'9' => digit - b'0',
                letter @ b'a'..=b'z' => letter - b'a' + 10,
                letter @ b'A'..=b'Z' => letter - b'A' + 36,
                _ => return None,
            };
            number = number.checked_mul(62)?.checked_add(usize::from(digit))?;
        }
        None
    }

    /// Reads a name. One that is not ASCII is encoded, and counts as unknown.
    fn identifier(&mut self) -> Option<&'symbol str> {
        self.disambiguator()?;
        let mut length = 0_usize;
        let start = self.at;
        while let Some(digit) = self.symbol.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            length = length.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
            self.at += 1;
        }
        if self.at == start {
            return None;
        }
        // An underscore separates the length from a name that begins with a digit or an underscore.
        self.next_is(b'_');
        let name = self.symbol.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        std::str::from_utf8(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(symbol: &str) -> (String, String) {
        let FunctionName { path, module } = FunctionName::new(symbol);
        (path, module.unwrap_or_default())
    }

    #[track_caller]
    fn assert_name(symbol: &str, path: &str, module: &str) {
        assert_eq!(name(symbol), (path.to_owned(), module.to_owned()), "{symbol}");
    }

    #[test]
    fn older_symbols_lose_their_hash() {
        assert_name(
            "_ZN5alloc3vec16Vec$LT$T$C$A$GT$4push17h0123456789abcdefE",
            "alloc::vec::Vec<T,A>::push",
            "alloc::vec",
        );
        assert_name("_ZN4main4main17h0123456789abcdefE", "main::main", "main");
        assert_name(
            "_ZN4main5outer5inner28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
            "main::outer::inner::{closure}",
            "main::outer",
        );
        assert_name(
            "_ZN63_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "alloc::vec",
        );
        assert_name(
            "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
            "<&T as core::fmt::Debug>::fmt",
            "core::fmt",
        );
        assert_name(
            "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
            "core::ptr::drop_in_place<alloc::string::String>",
            "core::ptr",
        );
        assert_name("_ZN4main4main17h0123456789abcdefE.llvm.123456789ABC", "main::main", "main");
    }

    #[test]
    fn newer_symbols_lose_crate_hashes_and_keep_generic_arguments() {
        assert_name("_RNvC4main4main", "main::main", "main");
        assert_name("_RNCNvNtCs1234_7mycrate3foo3bar0B5_", "mycrate::foo::bar::{closure#0}", "mycrate::foo");
        assert_name("_RNvMs_NtCs1234_5alloc3vecINtB4_3VechE4push", "alloc::vec::Vec<u8>::push", "alloc::vec");
        assert_name(
            "_RINvNtCs1234_4core3ptr13drop_in_placeNtCs99_4main5StateEB4_",
            "core::ptr::drop_in_place::<main::State>",
            "core::ptr",
        );
        assert_name("_RNvMCs1234_4mainSh4sort", "<[u8]>::sort", "main");
    }

    #[test]
    fn a_traits_function_belongs_to_the_module_of_its_impl() {
        assert_name(
            "_RNvXs_NtCs12_4main5stateNtB4_5StateNtNtCs34_4core5clone5Clone5clone",
            "<main::state::State as core::clone::Clone>::clone",
            "main::state",
        );
        // A function that the trait itself provides.
        assert_name(
            "_RNvYNtCs12_4main5StateNtNtCs34_4core4iter8Iterator3mapB4_",
            "<main::State as core::iter::Iterator>::map",
            "core::iter",
        );
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for symbol in
            ["_start", "malloc", "_ZN3foo3barEv", "_ZNSt6vectorIiE9push_backEi", "_R", "", "push<u8>"]
        {
            assert_name(symbol, symbol, "");
        }
    }

    #[test]
    fn damaged_symbols_have_no_module_and_end() {
        for symbol in [
            "_RB_",
            "_RNvB_4main",
            "_RNtB_",
            "_RC99999999999999999999999x",
            "_RNvC9main4main",
            "_RBzzzzzzzzzzzzzzz_",
        ] {
            assert_eq!(v0_module(symbol), Module::NotInSymbol, "{symbol}");
        }
    }
}
