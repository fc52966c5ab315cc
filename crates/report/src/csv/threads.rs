//! `csv=threads`: what each thread allocated, and who freed it, with `--why-by thread`.

use std::io::{self, Write};

use crate::csv::full_names;
use crate::csv::text::cell;
use crate::options::Options;
use crate::why::explained;
use crate::why::threads::WhyThreads;
use memprof_judge::compare::comparison::Comparison;
use memprof_judge::results::stack_log::Figures;

/// The columns.
const HEADINGS: [&str; 12] = [
    "test",
    "ref",
    "kind",
    "thread",
    "allocated",
    "count",
    "at_peak",
    "live",
    "freed_by",
    "freed",
    "problem",
    "title",
];

/// Writes a row for each thread, then one for each that freed its blocks.
pub fn render(comparison: &Comparison, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(HEADINGS)?;
    let names = full_names(comparison);
    let report = options.why.as_deref().map(|why| explained::report(comparison, why));
    for run in report.iter().flat_map(|report| &report.threads) {
        for row in rows(run) {
            let names = [names[&run.test].clone(), run.r#ref.clone()];
            let fields = names.into_iter().chain(row).chain([run.test.clone()]);
            table.write_record(fields.map(|field| cell(&field).into_owned()))?;
        }
    }
    table.flush()
}

fn rows(run: &WhyThreads) -> Vec<[String; 9]> {
    let of = |kind: &str, thread: &str, figures: Figures, problem: Option<&String>| {
        let Figures { at_peak, live, allocated, count } = figures;
        let [allocated, count, at_peak, live] =
            [allocated, count, at_peak, live].map(|figure| figure.to_string());
        let problem = problem.cloned().unwrap_or_default();
        let none = String::new;
        [kind.to_owned(), thread.to_owned(), allocated, count, at_peak, live, none(), none(), problem]
    };
    let mut rows = Vec::new();
    for thread in &run.threads {
        rows.push(of("thread", &thread.name, thread.figures, run.problem.as_ref()));
        let Some(freed) = &thread.freed else { continue };
        let mut push = |kind: &str, by: &str, bytes: i64| {
            let none = String::new;
            let (by, bytes) = (by.to_owned(), bytes.to_string());
            let name = thread.name.clone();
            rows.push([kind.to_owned(), name, none(), none(), none(), none(), by, bytes, none()]);
        };
        let own = &thread.name;
        push("freed_by_itself", own, freed.itself);
        freed.others.iter().for_each(|(by, bytes)| push("freed_by_other", by, *bytes));
        if freed.perhaps_itself != 0 {
            push("freed_by_same_name", own, freed.perhaps_itself);
        }
    }
    rows.push(of("without_stack", "", run.without_stack, None));
    rows
}
