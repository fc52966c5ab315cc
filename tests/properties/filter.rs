//! Texts with a syntax of their own: filters, cells, function patterns, templates, limits, and the values of flags.

use std::str::FromStr;

use cargo_memprof::arguments::values;
use memprof_plan::cell_pattern;
use memprof_plan::config::values::RegularExpression;
use memprof_plan::expression::Expression;
use memprof_plan::quantity::Limit;
use memprof_plan::repeat::Repeat;
use memprof_plan::title::Template;
use memprof_plan::trace_pattern::{PathSegment, TracePattern, TypeName};

use super::Target;

pub const TARGET: Target = Target {
    name: "filter",
    check,
    seeds,
    words: &[
        "and ",
        " or ",
        "not ",
        "(",
        ")",
        "**",
        "*",
        "::",
        "<",
        ">",
        " as ",
        "r#",
        "&'a mut ",
        "->",
        "ref=",
        "test=",
        "checkpoint=",
        "{test}",
        "{",
        "}",
        "%",
        "MiB",
        "KiB",
        "EiB",
        "off",
        "auto",
        "1e308",
        "inf",
        "nan",
        "-",
    ],
};

/// No reader panics; what an expression or a pattern shows is read as the same again; an error points into the text.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Expression>() {
        Ok(expression) => {
            let shown = expression.to_string();
            assert_eq!(shown.parse::<Expression>().as_ref(), Ok(&expression), "{shown:?}");
            expression.matches("bart::encoder::forward");
            if text.len() < 4096 {
                // Every name is in the text, so only `not` can keep it from matching.
                assert!(expression.matches(text) || text.contains("not"), "{text:?}");
                assert!(expression.names().iter().all(|name| text.contains(name)));
            }
        }
        Err(error) => {
            assert!(error.column <= text.chars().count(), "{error:?}");
            assert!(error.to_string().contains('^'));
        }
    }
    if let Ok(pattern) = text.parse::<TracePattern>() {
        assert_eq!(pattern.to_string().parse::<TracePattern>().as_ref(), Ok(&pattern));
        let type_ = |text: &str| TypeName { bare: text.to_owned(), whole: format!("{text}<T>") };
        let path = [
            PathSegment::Name("bart".to_owned()),
            PathSegment::Impl { of: type_("Encoder"), trait_: Some(type_("Module")) },
            PathSegment::Name(text.to_owned()),
        ];
        pattern.matches(&path, true);
        pattern.matches(&path, false);
    }
    drop(cell_pattern::parse(text));
    drop(Template::from_str(text));
    drop(RegularExpression::from_str(text));
    drop((Limit::from_str(text), Repeat::from_str(text)));
    drop((values::parameter(text), values::variable(text), values::reference(text)));
    drop((values::metric(text), values::device(text), values::allow(text)));
    for rule in [values::threshold(text), values::limit(text), values::leak(text)].into_iter().flatten() {
        let written = serde_json::to_string(&rule).expect("a rule has a JSON form");
        assert_eq!(serde_json::from_str(&written).ok(), Some(rule), "{written}");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "hf_fwd and not (slow or parser::[8-64])",
        "bart::encoder::<Encoder<T> as Module<U>>::forward",
        "my-crate::**::<&'a mut enc::Encoder as From<(u8, T)>>::fo*",
        "ref=main,test=hf and not slow,batch=64",
        "{test} {batch}/{kind}",
        "heap.peak=5%,16MiB,test=hf_fwd,checkpoint=after load",
        "heap.live=64KiB",
        "metric=heap.peak,test=hf,reason=a larger cache,until=2026-01-31,limit=5%",
        "batch=8,1e3,",
        "old=HEAD^{/fix=bug}",
        "^a(b|c)*$",
        "auto",
        "2.5e3%",
    ]
    .map(Into::into)
    .into()
}
