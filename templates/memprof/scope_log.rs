//! What the log is told of scopes, and what a scope keeps of the mark at which it began.

use crate::json::Json;
use crate::metric::{Index, Kind, Metric};
use crate::occurrences::Logged;
use crate::recorder::{Mark, Recorder, settle_and_hold};
use crate::sources::Extent;
use crate::untracked::{Text, Untracked};

/// The mark at which a scope began: what it compares with when it ends. Of the values as many as there were metrics.
pub(crate) struct ScopeStart {
    number: u64,
    nanoseconds: u64,
    /// Which of its label it is, in the order in which they begin: the outermost call of a recursion is the first, however
    /// deep the recursion goes.
    occurrence: u64,
    values: Untracked<Option<u64>>,
}

pub(crate) fn start_scope(label: &str) -> Option<ScopeStart> {
    settle_and_hold().and_then(|mut recorder| recorder.start_scope(label))
}

pub(crate) fn end_scope(label: &str, at: &str, depth: u64, start: &ScopeStart) {
    if let Some(mut recorder) = settle_and_hold() {
        recorder.end_scope(label, at, depth, start);
    }
}

impl Recorder {
    fn start_scope(&mut self, label: &str) -> Option<ScopeStart> {
        self.log.as_ref()?;
        let occurrence = self.occurrences.next(Logged::Scope, label);
        let mark = self.mark(Extent::Scopes);
        let mut values = Untracked::new();
        for (index, _) in self.catalogue.metrics() {
            values.push(mark.values.get(index));
        }
        self.open_scopes += 1;
        Some(ScopeStart { number: mark.number, nanoseconds: mark.nanoseconds, occurrence, values })
    }

    fn end_scope(&mut self, label: &str, at: &str, depth: u64, start: &ScopeStart) {
        self.open_scopes = self.open_scopes.saturating_sub(1);
        if self.log.is_none() {
            return;
        }
        let mark = self.mark(Extent::Scopes);
        self.log_what_appeared(&mark);
        self.log(|recorder, log| {
            log.write("scope", mark.nanoseconds, |json| {
                json.text("label", label);
                json.figure("occurrence", start.occurrence);
                json.text("at", at);
                json.figure("depth", depth);
                json.object("metrics", |json| {
                    for (index, metric) in recorder.catalogue.metrics() {
                        recorder.scope_figures(json, index, metric, start, &mark);
                    }
                    json.figure("time", mark.nanoseconds - start.nanoseconds);
                });
            })
        });
    }

    /// Of a peak and its level: consumed, peaked and used; of a total: by how much it grew.
    fn scope_figures(
        &self,
        json: &mut Json<'_>,
        index: Index,
        metric: &Metric,
        start: &ScopeStart,
        end: &Mark,
    ) {
        let both = |index: Index| Some((start.value(index)?, end.values.get(index)?));
        match metric.kind {
            Kind::Peak { family, level } => {
                let (before, after) = match both(level) {
                    Some(both) => both,
                    None => return,
                };
                let name = |part: &str| Text::of(format_args!("{family}.{part}"));
                let consumed = i128::from(after) - i128::from(before);
                json.number(name("consumed").as_str(), format_args!("{consumed}"));
                if let Some(peak) = self.histories.of(index).since(start.number) {
                    let peaked = peak.saturating_sub(before.max(after));
                    json.number(name("peaked").as_str(), format_args!("{peaked}"));
                }
                json.number(name("used").as_str(), format_args!("{after}"));
            }
            Kind::Total => {
                if let Some((before, after)) = both(index) {
                    json.figure(metric.name, after.wrapping_sub(before));
                }
            }
            Kind::Level => {}
        }
    }
}

impl ScopeStart {
    fn value(&self, index: Index) -> Option<u64> {
        // A metric that came after the scope began stood at zero then.
        self.values.get(index.place()).copied().unwrap_or(Some(0))
    }
}
