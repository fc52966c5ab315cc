//! One test on the page: its verdict, charts, checkpoints, call sites, scopes, tensors and runs.

use maud::{Markup, html};

use crate::html::checkpoint_table::{self, Positions};
use crate::html::page_test::{PageTest, PageView};
use crate::html::treemap::has_layers;
use crate::html::{call_sites, runs};
use crate::options::{Options, Rows};
use crate::page::{Page, written};
use crate::scopes;
use crate::selection::MetricFilter;
use crate::tensors::view as tensors;
use crate::trace::calls::TraceReport;
use crate::troubles::{self, Trouble};
use memprof_judge::compare::comparison::{Comparison, PairView};
use memprof_support::labels::{lines, one_line};

/// The width of tables that are text.
const WIDTH: usize = 110;

/// What all sections need.
pub(super) struct Surroundings<'a> {
    pub(super) comparison: &'a Comparison,
    pub(super) options: &'a Options,
    pub(super) filter: &'a MetricFilter,
}

impl Surroundings<'_> {
    /// Returns the section of a test. `is_open` unfolds it.
    pub(super) fn section(&self, number: usize, test: &PageTest<'_>, is_open: bool) -> Markup {
        let several = test.sides.len() > 1;
        // The flame graphs of a test are numbered over all candidates.
        let graphs = |side: &PageView<'_>| side.why.map_or(0, |why| why.rows.len());
        let first = |at: usize| test.sides[..at].iter().map(graphs).sum::<usize>();
        let content = html! {
            @for side in &test.sides {
                @if let Some(finding) = &side.finding {
                    p.finding {
                        @if several { (one_line(&side.view.new.name)) ": " }
                        (finding.sign) " " (one_line(&finding.sentence()))
                    }
                }
            }
            div.charts hidden {}
            @for (at, side) in test.sides.iter().enumerate() {
                @if several { h3 { (one_line(&side.view.new.name)) " against " (one_line(&side.view.old.name)) } }
                (self.side(test, side, first(at)))
            }
        };
        html! {
            section.test id=(test.id) data-test=(number) {
                details open[is_open] {
                    summary {
                        h2 { (test.title) }
                        @for side in &test.sides { " " (summary(side, several)) }
                    }
                    // The script makes the content when the section is opened.
                    @if is_open { (content) } @else { noscript { (content) } }
                }
            }
        }
    }

    fn side(&self, test: &PageTest<'_>, side: &PageView<'_>, flames: usize) -> Markup {
        let Self { comparison, options, filter } = *self;
        let view = &side.view;
        let positions = Positions::from_checkpoints(&test.points, comparison.baseline, view.pair.candidate);
        let traced = if view.is_alone() {
            TraceReport::of_one(comparison, view.cell)
        } else {
            TraceReport::for_pair(comparison, view)
        };
        html! {
            @for trouble in self.troubles(side) { (trouble_text(&trouble)) }
            (checkpoint_table::tables(comparison, view, filter, options, &positions))
            @if let Some(why) = options.why.as_deref() {
                (call_sites::sections(test, side, why, options.with_source, flames))
            }
            (self.scopes(view))
            (self.trees(&traced))
            (self.tensors(view))
            (runs::table(view))
        }
    }

    fn troubles(&self, side: &PageView<'_>) -> Vec<Trouble> {
        if side.view.is_alone() {
            troubles::side_troubles(self.comparison, side.view.new, side.view.candidate)
        } else {
            troubles::troubles(self.comparison, &side.view)
        }
    }

    /// Scopes, each below the one around it.
    fn scopes(&self, view: &PairView<'_>) -> Markup {
        let options = self.as_text();
        let tree = written(|out| scopes::render_tree(self.comparison, view, &options, out));
        html! {
            @if !tree.is_empty() {
                section.tree { h3 { "Scopes" } div.scroll { pre { (tree) } } }
            }
        }
    }

    /// Traced functions, and their lines with figures.
    fn trees(&self, traced: &TraceReport<'_>) -> Markup {
        if traced.is_empty() {
            return html! {};
        }
        let options = self.as_text();
        let page = Page::new(&options);
        let calls = written(|out| {
            traced.tree(page, &traced.calls(), &options, out)?;
            traced.remarks(page, out)
        });
        html! {
            @if !calls.is_empty() {
                section.tree { h3 { "Traced functions" } div.scroll { pre { (calls) } } }
            }
            @for profile in traced.lines() {
                section.lines {
                    h3 { "Lines of " (one_line(&TraceReport::title(&profile))) }
                    div.scroll { pre { (written(|out| traced.source(page, &profile, &options, out))) } }
                }
            }
        }
    }

    fn tensors(&self, view: &PairView<'_>) -> Markup {
        if !has_layers(self.comparison, view) {
            return html! {};
        }
        let options = self.as_text();
        let text = written(|out| {
            if view.is_alone() {
                tensors::render_one(self.comparison, view.cell, &options, out)
            } else {
                tensors::render(self.comparison, view, &options, out)
            }
        });
        html! {
            @if !text.is_empty() {
                section.layers {
                    h3 { "Named tensors" }
                    div.treemap hidden {}
                    div.scroll { pre { (text) } }
                }
            }
        }
    }

    fn as_text(&self) -> Options {
        Options { width: Some(WIDTH), color: false, rows: Rows::Changed, ..self.options.clone() }
    }
}

fn summary(side: &PageView<'_>, several: bool) -> Markup {
    let sign = side.finding.as_ref().map(|finding| finding.sign);
    let amount = side.finding.as_ref().map(|one| format!("{} {}", one.metric, one.difference));
    let amount = amount.filter(|text| !text.trim().is_empty());
    html! {
        span.standing data-standing=(side.key()) {
            @if let Some(sign) = sign { span.mark aria-hidden="true" { (sign) } " " }
            @if several { (one_line(&side.view.new.name)) ": " }
            @if side.standing.is_some() { (side.word()) }
            @if let Some(amount) = amount { " · " (one_line(amount.trim())) }
        }
    }
}

/// Something that went wrong, with its details.
pub(super) fn trouble_text(trouble: &Trouble) -> Markup {
    html! {
        div.trouble {
            p { @if trouble.is_failure { "✗ " } (one_line(&trouble.headline)) }
            @if !trouble.details.is_empty() { pre { (lines(&trouble.details.join("\n"))) } }
            @if let Some(figures) = &trouble.figures { p.quiet { (one_line(figures)) } }
        }
    }
}
