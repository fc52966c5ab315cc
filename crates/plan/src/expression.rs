//! pytest's `-k` expressions: case-insensitive substrings with `and`, `or`, `not` and parentheses.
//!
//! ```text
//! expression: and_expression ("or" and_expression)*
//! and_expression: not_expression ("and" not_expression)*
//! not_expression: "not" not_expression | "(" expression ")" | name
//! name: (word character | ":" | "+" | "-" | "." | "[" | "]" | "\" | "/" | "=")+ | quoted
//! quoted: '"' any characters but '"' '"' | "'" any characters but "'" "'"
//! ```
//!
//! The grammar is that of pytest's `_pytest/mark/expression.py`, without the keyword arguments that
//! only marks have. Names of cells need more: `=`, commas between brackets (`[batch=8,dtype=f32]`),
//! and quotes around any other text.

use std::fmt;
use std::str::FromStr;

/// A parsed expression. Displays as text that parses to the same expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// The text contains this, in upper or lower case.
    Name(String),
    /// This does not hold.
    Not(Box<Expression>),
    /// All of these hold; two or more.
    And(Vec<Expression>),
    /// Any of these holds; two or more.
    Or(Vec<Expression>),
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ExpressionError {
    /// What was expected, and what was found.
    pub message: String,
    /// The whole expression.
    pub text: String,
    /// The place, in characters from 0; the text's length stands for its end.
    pub column: usize,
}

impl fmt::Display for ExpressionError {
    /// Writes the message, then the expression with a caret below the place.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A control character, such as a newline from a YAML block, would misplace the caret.
        let shown: String =
            self.text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        write!(formatter, "{} (column {})", self.message, self.column + 1)?;
        let before: String = shown.chars().take(self.column).collect();
        write!(
            formatter,
            "\n    {shown}\n    {:width$}^",
            "",
            width = unicode_width::UnicodeWidthStr::width(&*before)
        )
    }
}

/// The deepest nesting that is accepted, so that no expression exhausts the stack.
const DEEPEST: usize = 100;

impl Expression {
    /// Whether the expression holds for this text.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_lowercase(&text.to_lowercase())
    }

    fn matches_lowercase(&self, text: &str) -> bool {
        match self {
            Self::Name(name) => text.contains(&name.to_lowercase()),
            Self::Not(inner) => !inner.matches_lowercase(text),
            Self::And(parts) => parts.iter().all(|part| part.matches_lowercase(text)),
            Self::Or(parts) => parts.iter().any(|part| part.matches_lowercase(text)),
        }
    }

    /// Whether the expression holds, as far as `holds` knows of each name. `None` means that it may.
    pub(crate) fn may_hold(&self, holds: &dyn Fn(&str) -> Option<bool>) -> Option<bool> {
        let decided = |parts: &[Self], by: bool| {
            let parts: Vec<Option<bool>> = parts.iter().map(|part| part.may_hold(holds)).collect();
            if parts.contains(&Some(by)) {
                return Some(by);
            }
            parts.iter().all(|part| *part == Some(!by)).then_some(!by)
        };
        match self {
            Self::Name(name) => holds(name),
            Self::Not(inner) => inner.may_hold(holds).map(|inner| !inner),
            Self::And(parts) => decided(parts, false),
            Self::Or(parts) => decided(parts, true),
        }
    }

    /// Returns the names that the expression asks for, without those after `not`. Suggestions are
    /// made for these.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Name(name) => vec![name],
            Self::Not(_) => Vec::new(),
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::names).collect(),
        }
    }

    fn binding(&self) -> u8 {
        match self {
            Self::Or(_) => 0,
            Self::And(_) => 1,
            Self::Not(_) | Self::Name(_) => 2,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Parentheses are needed unless the inner expression binds tighter than the outer one.
        let part = |formatter: &mut fmt::Formatter<'_>, inner: &Self, outer: u8| {
            if inner.binding() > outer || (outer == 2 && inner.binding() == 2) {
                write!(formatter, "{inner}")
            } else {
                write!(formatter, "({inner})")
            }
        };
        match self {
            Self::Name(name) if is_bare_name(name) => formatter.write_str(name),
            Self::Name(name) => {
                let quote = if name.contains('"') { '\'' } else { '"' };
                write!(formatter, "{quote}{name}{quote}")
            }
            Self::Not(inner) => {
                formatter.write_str("not ")?;
                part(formatter, inner, 2)
            }
            Self::And(parts) | Self::Or(parts) => {
                let word = if matches!(self, Self::And(_)) { " and " } else { " or " };
                for (index, inner) in parts.iter().enumerate() {
                    formatter.write_str(if index == 0 { "" } else { word })?;
                    part(formatter, inner, self.binding())?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { text, tokens: &tokens, next: 0, depth: 0 };
        let expression = parser.any_of()?;
        match parser.peek() {
            Token::End => Ok(expression),
            _ => Err(parser.unexpected("`and`, `or` or the end")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(formatter, "'{name}'"),
            Self::And => formatter.write_str("`and`"),
            Self::Or => formatter.write_str("`or`"),
            Self::Not => formatter.write_str("`not`"),
            Self::Open => formatter.write_str("`(`"),
            Self::Close => formatter.write_str("`)`"),
            Self::End => formatter.write_str("the end"),
        }
    }
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || "_:+-.[]\\/=".contains(character)
}

/// The length of the name that the text begins with, in bytes.
fn bare_name_length(text: &str) -> usize {
    let mut is_in_brackets = false;
    let end = text.find(|character| {
        match character {
            '[' => is_in_brackets = true,
            ']' => is_in_brackets = false,
            _ => {}
        }
        let is_part = is_name_character(character) || (is_in_brackets && character == ',');
        !is_part
    });
    end.unwrap_or(text.len())
}

/// Whether the name needs no quotes.
fn is_bare_name(name: &str) -> bool {
    let is_name = !name.is_empty() && bare_name_length(name) == name.len();
    is_name && !["and", "or", "not"].contains(&name)
}

/// Returns the name that the text begins with, and how many bytes it takes. `None` if the
/// text begins with no name.
fn name_at(text: &str) -> Option<(Token<'_>, usize)> {
    let quote = text.chars().next().filter(|first| ['"', '\''].contains(first));
    if quote.is_some() {
        let length = text[1..].find(|character| Some(character) == quote).filter(|length| *length > 0)?;
        return Some((Token::Name(&text[1..=length]), length + 2));
    }
    let length = bare_name_length(text);
    let token = match &text[..length] {
        "" => return None,
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        name => Token::Name(name),
    };
    Some((token, length))
}

/// Returns the tokens with their columns in characters, and an end token.
fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, ExpressionError> {
    let mut tokens = Vec::new();
    let (mut rest, mut column) = (text, 0);
    while let Some(character) = rest.chars().next() {
        let (token, length) = match character {
            '(' => (Some(Token::Open), 1),
            ')' => (Some(Token::Close), 1),
            space if space.is_whitespace() => (None, space.len_utf8()),
            other => {
                let Some((token, length)) = name_at(rest) else {
                    let message = unexpected_character(other);
                    return Err(ExpressionError { message, text: text.to_owned(), column });
                };
                (Some(token), length)
            }
        };
        tokens.extend(token.map(|token| (token, column)));
        let (before, after) = rest.split_at(length);
        (rest, column) = (after, column + before.chars().count());
    }
    tokens.push((Token::End, column));
    Ok(tokens)
}

fn unexpected_character(character: char) -> String {
    let hint = match character {
        '&' => "; write `and`",
        '|' | ',' => "; write `or`",
        '!' => "; write `not`",
        '*' | '?' | '^' | '$' => "; names are substrings, and --regex takes patterns",
        '"' | '\'' => "; quotes stand around a name, in pairs",
        _ => "; put the name into quotes",
    };
    format!("unexpected character '{character}'{hint}")
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [(Token<'a>, usize)],
    next: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.next].0
    }

    fn take(&mut self, wanted: Token<'_>) -> bool {
        let is_next = self.peek() == wanted;
        self.next += usize::from(is_next);
        is_next
    }

    fn error(&self, message: String) -> ExpressionError {
        ExpressionError { message, text: self.text.to_owned(), column: self.tokens[self.next].1 }
    }

    fn unexpected(&self, wanted: &str) -> ExpressionError {
        self.error(format!("expected {wanted}, found {}", self.peek()))
    }

    fn any_of(&mut self) -> Result<Expression, ExpressionError> {
        let mut parts = vec![self.all_of()?];
        while self.take(Token::Or) {
            parts.push(self.all_of()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Or(parts) })
    }

    fn all_of(&mut self) -> Result<Expression, ExpressionError> {
        let mut parts = vec![self.negated()?];
        while self.take(Token::And) {
            parts.push(self.negated()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::And(parts) })
    }

    fn negated(&mut self) -> Result<Expression, ExpressionError> {
        if self.depth == DEEPEST {
            return Err(self.error(format!("nested more than {DEEPEST} levels deep")));
        }
        self.depth += 1;
        let expression = match self.peek() {
            Token::Not => {
                self.next += 1;
                Expression::Not(Box::new(self.negated()?))
            }
            Token::Open => {
                self.next += 1;
                let inner = self.any_of()?;
                if !self.take(Token::Close) {
                    return Err(self.unexpected("`and`, `or` or `)`"));
                }
                inner
            }
            Token::Name(name) => {
                self.next += 1;
                Expression::Name(name.to_owned())
            }
            _ => return Err(self.unexpected("a name, `not` or `(`")),
        };
        self.depth -= 1;
        Ok(expression)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Expression {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn names_are_substrings_of_the_whole_id_in_any_case() {
        assert!(parse("HF_fwd").matches("bart::tests::hf_fwd_long"));
        assert!(parse("bart::tests").matches("bart::tests::hf_fwd"));
        assert!(!parse("bwd").matches("bart::tests::hf_fwd"));
        assert!(parse("case[1-2]/a.b+c\\d").matches("x::case[1-2]/a.b+c\\d"));
    }

    #[test]
    fn not_binds_tighter_than_and_and_and_tighter_than_or() {
        let expression = parse("a or b and not c");
        for (text, expected) in [("a", true), ("ac", true), ("b", true), ("bc", false), ("c", false)] {
            assert_eq!(expression.matches(text), expected, "{text}");
        }
        assert!(!parse("not (a or b)").matches("b"));
        assert!(parse("not not a").matches("a"));
    }

    #[test]
    fn the_name_of_a_cell_is_a_name_too() {
        let name = |text: &str| Expression::Name(text.to_owned());
        assert_eq!(parse("hf_fwd[batch=8,dtype=f32]"), name("hf_fwd[batch=8,dtype=f32]"));
        assert_eq!(parse("RoBERTa/MNLI/16"), name("RoBERTa/MNLI/16"));
        assert_eq!(parse("\"RoBERTa (MNLI), 16\""), name("RoBERTa (MNLI), 16"));
        let both = Expression::And(vec![name("it's"), Expression::Not(Box::new(name("or")))]);
        assert_eq!(parse("\"it's\" and not 'or'"), both);
        for wrong in ["\"open", "''", "a,b", "a[b],c"] {
            assert!(wrong.parse::<Expression>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn keywords_are_lower_case_as_in_pytest_and_only_whole_words() {
        assert_eq!(parse("NOT"), Expression::Name("NOT".to_owned()));
        assert_eq!(parse("android"), Expression::Name("android".to_owned()));
    }

    #[test]
    fn an_error_points_at_its_column() {
        let error = |text: &str| text.parse::<Expression>().unwrap_err().to_string();
        insta::assert_snapshot!(error("hf and"), @"
        expected a name, `not` or `(`, found the end (column 7)
            hf and
                  ^
        ");
        insta::assert_snapshot!(error("hf bwd"), @"
        expected `and`, `or` or the end, found 'bwd' (column 4)
            hf bwd
               ^
        ");
        insta::assert_snapshot!(error("(hf or bwd"), @"
        expected `and`, `or` or `)`, found the end (column 11)
            (hf or bwd
                      ^
        ");
        insta::assert_snapshot!(error("größe && b"), @"
        unexpected character '&'; write `and` (column 7)
            größe && b
                  ^
        ");
        insta::assert_snapshot!(error("hf_*"), @"
        unexpected character '*'; names are substrings, and --regex takes patterns (column 4)
            hf_*
               ^
        ");
        insta::assert_snapshot!(error(""), @"
        expected a name, `not` or `(`, found the end (column 1)
            
            ^
        ");
    }

    #[test]
    fn absurd_nesting_is_an_error_and_no_crash() {
        let message = |text: String| text.parse::<Expression>().unwrap_err().message;
        assert!(message("(".repeat(1_000_000)).contains("levels deep"));
        assert!(message("not ".repeat(1_000_000)).contains("levels deep"));
    }

    #[test]
    fn what_is_not_known_decides_only_if_nothing_else_does() {
        let known = |name: &str| match name {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        };
        let cases = [
            ("open", None),
            ("not no", Some(true)),
            ("open and no", Some(false)),
            ("open or yes", Some(true)),
            ("not open", None),
            ("open or no", None),
            ("yes and not (no or open)", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).may_hold(&known), expected, "{text}");
        }
    }

    fn any_expression() -> impl Strategy<Value = Expression> {
        let name = prop_oneof![
            "[a-cA-C_:.\\[\\],=/+-]{1,4}",
            "[a-c ()&ö'*]{1,4}",
            "[a-c ()&ö\"*]{1,4}",
            prop::sample::select(vec!["and", "or", "not"]).prop_map(str::to_owned),
        ]
        .prop_map(Expression::Name);
        name.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|inner| Expression::Not(Box::new(inner))),
                prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::And),
                prop::collection::vec(inner, 2..4).prop_map(Expression::Or),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".*") {
            if let Err(error) = text.parse::<Expression>() {
                prop_assert!(error.column <= text.chars().count());
                let _ = error.to_string();
            }
        }

        #[test]
        fn nearly_right_text_does_not_either(text in "(and|or|not|a|b|[(]|[)]| ){0,30}") {
            let _ = text.parse::<Expression>();
        }

        #[test]
        fn what_is_displayed_parses_to_the_same(expression in any_expression()) {
            prop_assert_eq!(parse(&expression.to_string()), expression);
        }

        #[test]
        fn the_laws_of_boole_hold(left in any_expression(), right in any_expression(), text in "[a-c_:.]{0,12}") {
            let holds = |expression: Expression| expression.matches(&text);
            let not = |expression: &Expression| Expression::Not(Box::new(expression.clone()));
            let both = || vec![left.clone(), right.clone()];
            prop_assert_eq!(holds(not(&not(&left))), holds(left.clone()));
            prop_assert_eq!(
                holds(Expression::Not(Box::new(Expression::And(both())))),
                holds(Expression::Or(vec![not(&left), not(&right)]))
            );
            prop_assert_eq!(holds(Expression::Or(both())), holds(left.clone()) || holds(right.clone()));
            prop_assert!(!holds(Expression::And(vec![left.clone(), not(&left)])));
            prop_assert!(holds(Expression::Or(vec![left.clone(), not(&left)])));
        }
    }
}
