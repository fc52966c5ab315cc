//! Patterns of functions to trace: `bart::encoder::*::forward`, `crate::kv_cache::**`, `<Encoder as
//! Module>::forward`.

use std::fmt;
use std::str::FromStr;

use memprof_support::glob;

/// A pattern, as written and as parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePattern {
    text: String,
    segments: Vec<PatternSegment>,
    /// Whether it begins with an impl. Then it matches in every module.
    is_of_impl: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternSegment {
    /// `**`: any number of segments, including none.
    Any,
    /// One segment, in which `*` stands for any text.
    One(Glob),
    /// `<Encoder as Module>`
    Impl(Glob, Glob),
}

/// Text in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob(String);

impl Glob {
    fn matches(&self, text: &str) -> bool {
        glob::matches(&self.0, text)
    }
}

/// One segment of a function's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    /// A module, an enclosing function, or the function's own name.
    Name(String),
    /// The type of an `impl`, and the trait if it implements one.
    Impl { of: TypeName, trait_: Option<TypeName> },
}

/// The name of a type or a trait, without its parameters and with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// `Encoder`
    pub bare: String,
    /// `Encoder<T>`
    pub whole: String,
}

impl TypeName {
    fn is(&self, glob: &Glob) -> bool {
        glob.matches(&self.bare) || glob.matches(&self.whole)
    }
}

impl fmt::Display for PathSegment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Impl { of, trait_: None } => formatter.write_str(&of.bare),
            Self::Impl { of, trait_: Some(trait_) } => {
                write!(formatter, "<{} as {}>", of.whole, trait_.whole)
            }
        }
    }
}

/// Returns a path as reports show it: `bart::encoder::<Encoder as Module>::forward`.
pub fn shown(path: &[PathSegment]) -> String {
    let steps: Vec<String> = path.iter().map(ToString::to_string).collect();
    steps.join("::")
}

impl TracePattern {
    /// Whether the pattern matches a function's path. `is_own` says whether its crate belongs to
    /// the repository. A crate from the registry must be named outright, or a `*` would trace all
    /// dependencies.
    pub fn matches(&self, path: &[PathSegment], is_own: bool) -> bool {
        if !is_own {
            let Some(PathSegment::Name(name)) = path.first() else { return false };
            return self.crate_name() == Some(name) && matches(&self.segments, path, true);
        }
        if self.is_of_impl {
            return (0..path.len()).any(|start| matches(&self.segments, &path[start..], false));
        }
        matches(&self.segments, path, true)
    }

    /// Returns the crate that the pattern names outright, without `*`.
    pub fn crate_name(&self) -> Option<&str> {
        match self.segments.first() {
            Some(PatternSegment::One(Glob(name)))
                if !self.is_of_impl && !name.contains('*') && name != "crate" =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    /// Whether it names functions, and does not match all functions of a module. Tests are traced
    /// only if they are named.
    pub fn names_functions(&self) -> bool {
        match self.segments.last() {
            Some(PatternSegment::One(Glob(name))) => name != "*",
            Some(PatternSegment::Any | PatternSegment::Impl(..)) | None => false,
        }
    }
}

/// Matches segments one by one. `is_first` says that the path begins at its crate, for which
/// `crate` stands.
fn matches(pattern: &[PatternSegment], path: &[PathSegment], is_first: bool) -> bool {
    let Some((segment, rest)) = pattern.split_first() else { return path.is_empty() };
    match segment {
        PatternSegment::Any => (0..=path.len()).any(|skipped| matches(rest, &path[skipped..], false)),
        PatternSegment::One(glob) => path.split_first().is_some_and(|(step, path)| {
            let is = match step {
                PathSegment::Name(name) => glob.matches(name) || (is_first && glob.0 == "crate"),
                PathSegment::Impl { of, .. } => of.is(glob),
            };
            is && matches(rest, path, false)
        }),
        PatternSegment::Impl(of, trait_) => path.split_first().is_some_and(|(step, path)| {
            let is = match step {
                PathSegment::Impl { of: type_, trait_: Some(one) } => type_.is(of) && one.is(trait_),
                _ => false,
            };
            is && matches(rest, path, false)
        }),
    }
}

impl fmt::Display for TracePattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl FromStr for TracePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let parts = split(text).ok_or_else(|| {
            PatternError(format!("'{text}' has a bracket without its counterpart: one of < > ( ) [ ]"))
        })?;
        if parts.iter().any(|part| part.is_empty()) {
            return Err(PatternError(format!(
                "'{text}' is not a pattern of functions: write CRATE::MODULE::FUNCTION, with * for one segment or a part of it, and ** for any number of segments"
            )));
        }
        // Types have commas, in `Encoder<A, B>`.
        if parts.iter().any(|part| part.split('<').next().unwrap_or_default().contains(',')) {
            return Err(PatternError(format!(
                "'{text}' is more than one pattern: repeat the flag for each, or write a list in memprof.yaml"
            )));
        }
        let mut segments = parts.iter().map(|part| segment(part)).collect::<Result<Vec<_>, _>>()?;
        // A package is `my-crate` in its manifest, and `my_crate` to the compiler.
        if let Some(PatternSegment::One(Glob(name))) = segments.first_mut() {
            *name = name.replace('-', "_");
        }
        let is_of_impl = parts.first().is_some_and(|part| part.starts_with('<'));
        if segments.len() == 1 && segments != [PatternSegment::Any] {
            return Err(PatternError(format!(
                "'{text}' has one segment only: write {text}::** for all functions of that crate, or **::{text} for all functions of that name"
            )));
        }
        Ok(Self { text: text.trim().to_owned(), segments, is_of_impl })
    }
}

fn segment(part: &str) -> Result<PatternSegment, PatternError> {
    if part == "**" {
        return Ok(PatternSegment::Any);
    }
    let Some(inside) = part.strip_prefix('<') else {
        return Ok(PatternSegment::One(Glob(squeezed(part.strip_prefix("r#").unwrap_or(part)))));
    };
    let inside = inside.strip_suffix('>').unwrap_or(inside);
    let Some((of, trait_)) = split_as(inside) else {
        return Ok(PatternSegment::One(Glob(without_modules(inside))));
    };
    let (of, trait_) = (without_modules(of), without_modules(trait_));
    if of.is_empty() || trait_.is_empty() {
        return Err(PatternError(format!("'{part}' is not <TYPE as TRAIT>")));
    }
    Ok(PatternSegment::Impl(Glob(of), Glob(trait_)))
}

/// Returns a type as functions' paths contain it: `&mut enc::Encoder<T>` becomes `&mut Encoder<T>`.
/// A type that is not a path, such as a tuple, is unchanged.
fn without_modules(text: &str) -> String {
    let text = squeezed(text);
    let mut rest = text.as_str();
    while let Some(behind) = rest.strip_prefix('&') {
        let lifetime = behind.strip_prefix('\'').map_or(0, |name| {
            1 + name.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(0)
        });
        let behind = behind[lifetime..].trim_start();
        rest = behind.strip_prefix("mut ").unwrap_or(behind);
    }
    let of_path = |character: char| character.is_alphanumeric() || "_:*#".contains(character);
    let modules = &rest[..rest.find('<').unwrap_or(rest.len())];
    let is_path = modules.chars().all(of_path);
    let start = modules.rfind("::").filter(|_| is_path).map_or(0, |last| last + 2);
    let name = rest[start..].trim_start_matches("r#");
    format!("{}{name}", &text[..text.len() - rest.len()])
}

/// Splits `TYPE as TRAIT`. The trait's parameters may contain ` as ` again.
fn split_as(text: &str) -> Option<(&str, &str)> {
    let places = text.match_indices(" as ").map(|(place, as_)| (&text[..place], &text[place + as_.len()..]));
    places.into_iter().find(|(of, _)| split(of).is_some())
}

/// Returns a type's text without spaces, except between words.
pub fn squeezed(text: &str) -> String {
    let mut squeezed = String::new();
    let mut had_space = false;
    for character in text.chars() {
        if character.is_whitespace() {
            had_space = true;
            continue;
        }
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let follows_word = squeezed.chars().last().is_some_and(is_word);
        if had_space && is_word(character) && follows_word {
            squeezed.push(' ');
        }
        had_space = false;
        squeezed.push(character);
    }
    squeezed
}

/// Splits at each `::` outside of brackets. Returns `None` if brackets are not in pairs.
fn split(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b'<' | b'(' | b'[' => depth += 1,
            // The arrow of `Fn() -> T`.
            b'>' if index > 0 && bytes[index - 1] == b'-' => {}
            b'>' | b')' | b']' => depth = depth.checked_sub(1)?,
            b':' if depth == 0 && bytes.get(index + 1) == Some(&b':') => {
                parts.push(text[start..index].trim());
                index += 1;
                start = index + 1;
            }
            _ => {}
        }
        index += 1;
    }
    parts.push(text[start..].trim());
    (depth == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(bare: &str, whole: &str) -> TypeName {
        TypeName { bare: bare.to_owned(), whole: whole.to_owned() }
    }

    /// Parses a path such as `bart::encoder::<Encoder<T> as Module>::forward`.
    fn path(text: &str) -> Vec<PathSegment> {
        let steps = split(text).unwrap();
        let whole = |text: &str| named(text.split('<').next().unwrap(), text);
        let step = |part: &str| match part.strip_prefix('<').and_then(|part| part.strip_suffix('>')) {
            Some(inside) => match inside.split_once(" as ") {
                Some((of, trait_)) => PathSegment::Impl { of: whole(of), trait_: Some(whole(trait_)) },
                None => PathSegment::Impl { of: whole(inside), trait_: None },
            },
            None => PathSegment::Name(part.to_owned()),
        };
        steps.into_iter().map(step).collect()
    }

    fn is_meant(pattern: &str, of: &str) -> bool {
        pattern.parse::<TracePattern>().unwrap().matches(&path(of), true)
    }

    #[test]
    fn a_star_is_a_segment_or_a_part_of_one() {
        assert!(is_meant("bart::encoder::*::forward", "bart::encoder::<Encoder>::forward"));
        assert!(is_meant("bart::*::*::for*", "bart::encoder::<Encoder>::forward"));
        assert!(!is_meant("bart::*::forward", "bart::encoder::<Encoder>::forward"));
        assert!(is_meant("b*t::en*er::new", "bart::encoder::new"));
        assert!(!is_meant("b*t::en*er::new", "bart::encode::new"));
    }

    #[test]
    fn two_stars_are_any_number_of_segments() {
        for of in ["bart::forward", "bart::encoder::forward", "bart::encoder::<Encoder>::forward"] {
            assert!(is_meant("**", of));
            assert!(is_meant("bart::**", of));
            assert!(is_meant("**::forward", of));
            assert!(is_meant("bart::**::forward", of));
            assert!(!is_meant("bart::**::backward", of));
        }
    }

    #[test]
    fn crate_is_each_crate_of_the_repository() {
        assert!(is_meant("crate::kv_cache::*", "bart::kv_cache::append"));
        assert!(!is_meant("crate::kv_cache::*", "bart::crate::kv_cache::append"));
    }

    #[test]
    fn an_impl_is_meant_by_its_type_or_by_type_and_trait() {
        let of = "bart::encoder::<Encoder<T> as Module>::forward";
        for pattern in [
            "<Encoder as Module>::forward",
            "<* as Module>::forward",
            "<Encoder<T> as Module>::*",
            "<crate::encoder::Encoder as candle_nn::Module>::forward",
            "bart::**::<Encoder as Module>::forward",
            "bart::encoder::Encoder::forward",
            "<Encoder>::forward",
            "<encoder::Encoder<T>>::forward",
        ] {
            assert!(is_meant(pattern, of), "{pattern}");
        }
        for pattern in
            ["<Decoder as Module>::forward", "<Encoder as Drop>::forward", "<Encoder<U> as Module>::*"]
        {
            assert!(!is_meant(pattern, of), "{pattern}");
        }
        assert!(!is_meant("<Encoder as Module>::forward", "bart::encoder::<Encoder>::forward"));
    }

    #[test]
    fn two_patterns_are_not_one() {
        let message = |text: &str| text.parse::<TracePattern>().unwrap_err().to_string();
        for two in ["bert::**,bart::**", "bert::forward, bart::forward"] {
            assert!(message(two).contains("repeat the flag for each"), "{}", message(two));
        }
        assert!(is_meant("bart::<Encoder<A, B>>::forward", "bart::<Encoder<A,B>>::forward"));
    }

    #[test]
    fn names_may_be_written_as_manifests_and_sources_have_them() {
        assert!(is_meant("my-crate::**", "my_crate::encoder::forward"));
        assert!(is_meant("my-crate::r#match", "my_crate::match"));
        let pattern: TracePattern = "md-5::**".parse().unwrap();
        assert_eq!((pattern.crate_name(), pattern.to_string().as_str()), (Some("md_5"), "md-5::**"));
        assert_eq!("<Encoder>::new".parse::<TracePattern>().unwrap().crate_name(), None);
    }

    #[test]
    fn types_that_are_no_plain_paths_are_meant_as_they_are_shown() {
        for (type_, modules) in [
            ("&'a mut Encoder<T>", "&'a mut crate::enc::Encoder<T>"),
            ("&mut Encoder<T>", "& mut enc::Encoder<T>"),
            ("(u8,deep::Thing)", "(u8, deep::Thing)"),
            ("[deep::Thing;4]", "[deep::Thing; 4]"),
            ("dyn Fn(u8)->deep::Thing", "dyn Fn(u8) -> deep::Thing"),
            ("*const Thing", "*const Thing"),
            ("Type<<T as Of>::Out>", "r#Type<<T as Of>::Out>"),
        ] {
            let as_module = PathSegment::Impl {
                of: named(type_, type_),
                trait_: Some(named("From", "From<<T as A>::B>")),
            };
            let path =
                [PathSegment::Name("bart".to_owned()), as_module, PathSegment::Name("forward".to_owned())];
            for pattern in [shown(&path), shown(&path[1..]), format!("<{modules} as From>::forward")] {
                assert!(pattern.parse::<TracePattern>().unwrap().matches(&path, true), "{pattern}");
            }
        }
    }

    #[test]
    fn crates_of_the_registry_are_meant_by_their_names_alone() {
        let of = path("petgraph::graph::<Graph>::new");
        let is_meant = |pattern: &str| pattern.parse::<TracePattern>().unwrap().matches(&of, false);
        assert!(is_meant("petgraph::**"));
        assert!(is_meant("petgraph::graph::*::new"));
        for pattern in ["**", "*::graph::*::new", "crate::**", "pet*::**"] {
            assert!(!is_meant(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, said) in [
            ("forward", "write forward::** for all functions of that crate, or **::forward"),
            ("a::::b", "is not a pattern"),
            ("", "is not a pattern"),
            ("<A as B::c", "without its counterpart"),
            ("a::b>::c", "without its counterpart"),
            ("a::b(", "without its counterpart"),
            ("< as B>::c", "is not <TYPE as TRAIT>"),
        ] {
            let error = text.parse::<TracePattern>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
