//! Suggestions for a mistyped name.

use std::collections::HashSet;

/// Returns at most `count` candidates that are similar to `wrong`, the most similar first.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    nearest_of(wrong, &mut candidates.into_iter(), count)
}

/// Does the same, compiled once for all kinds of candidates.
fn nearest_of<'a>(wrong: &str, candidates: &mut dyn Iterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    if wrong.len() > LONGEST {
        return Vec::new();
    }
    let wrong = wrong.to_lowercase();
    let mut known = HashSet::new();
    let mut scored: Vec<((f64, f64), &str)> = Vec::new();
    for candidate in candidates.filter(|candidate| candidate.len() <= LONGEST) {
        let lower = candidate.to_lowercase();
        let score = likeness(&wrong, &lower);
        if score >= ALIKE && known.insert(candidate) {
            // Of several names that contain it, the one that has least beside it is meant.
            scored.push(((score, similarity(&wrong, &lower)), candidate));
        }
    }
    // The sort is stable: among equally similar names, the first candidate wins.
    scored.sort_by(|((left, left_edits), _), ((right, right_edits), _)| {
        right.total_cmp(left).then(right_edits.total_cmp(left_edits))
    });
    scored.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

/// Returns `did you mean 'overlay'?` if a candidate is similar enough.
pub fn did_you_mean<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wrong, candidates, 1).first().map(|name| format!("did you mean '{name}'?"))
}

/// Returns the same, or a list of all candidates if none is similar: `keys: refs, tests`.
pub fn did_you_mean_or_list(wrong: &str, what: &str, candidates: &[&str]) -> String {
    did_you_mean(wrong, candidates.iter().copied())
        .unwrap_or_else(|| format!("{what}: {}", candidates.join(", ")))
}

/// The least similarity of a name and its misspelling. It is relative to the length, because one
/// letter of `v1` is half of it.
pub const ALIKE: f64 = 0.6;

/// No name that anybody mistypes is longer.
const LONGEST: usize = 256;

/// Returns a similarity from 0 to 1: high if one name contains the other, else by the number of
/// edits between them, or between one and words of the other.
fn likeness(wrong: &str, candidate: &str) -> f64 {
    if wrong.len() >= 3 && (candidate.contains(wrong) || (candidate.len() >= 3 && wrong.contains(candidate)))
    {
        return 0.9;
    }
    let whole = similarity(wrong, candidate);
    // Less than a name that contains it.
    if wrong.len() >= 4 { whole.max(0.85 * similarity_of_words(wrong, candidate)) } else { whole }
}

/// Returns the similarity with as many of the candidate's words as the name has.
fn similarity_of_words(wrong: &str, candidate: &str) -> f64 {
    let words = |name: &str| -> Vec<String> { name.split(['_', '-', ':']).map(str::to_owned).collect() };
    let (wrong, candidate) = (words(wrong), words(candidate));
    let parts = candidate.windows(wrong.len()).map(|part| similarity(&wrong.join("_"), &part.join("_")));
    parts.fold(0.0, f64::max)
}

/// Returns 1 minus the number of edits between two names, relative to the longer one. Returns 0 if
/// their lengths alone make them unlike, because counting edits is slow.
pub fn similarity(one: &str, other: &str) -> f64 {
    let (one_length, other_length) = (one.chars().count(), other.chars().count());
    let (short, long) = (one_length.min(other_length), one_length.max(other_length));
    #[expect(clippy::cast_precision_loss, reason = "names are short")]
    let is_possible = long <= LONGEST && short as f64 >= ALIKE * long as f64;
    if is_possible { strsim::normalized_damerau_levenshtein(one, other) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_its_name() {
        assert_eq!(did_you_mean("mian", ["release-0.4", "main"]).unwrap(), "did you mean 'main'?");
        assert_eq!(nearest("hf_fdw", ["hf_fwd", "hf_bwd", "parses"], 3), ["hf_fwd", "hf_bwd"]);
        assert_eq!(nearest("downcats", ["reads", "by_ref_downcast_fails"], 3), ["by_ref_downcast_fails"]);
        assert_eq!(nearest("hf_fdw", ["small_hf_fwd_of_two", "parses"], 3), ["small_hf_fwd_of_two"]);
        assert_eq!(nearest("OVERLAYS", ["overlay", "repeat"], 3), ["overlay"]);
        assert_eq!(
            did_you_mean("feature", ["no-default-features", "features"]).unwrap(),
            "did you mean 'features'?"
        );
    }

    #[test]
    fn nothing_is_suggested_for_what_is_like_nothing() {
        assert_eq!(did_you_mean("zebra", ["main", "overlay"]), None);
        assert_eq!(did_you_mean_or_list("zebra", "formats", &["table", "csv"]), "formats: table, csv");
        assert!(nearest("", ["main"], 3).is_empty());
        assert!((similarity("aaaaaaaaaa", "a") - 0.0).abs() < f64::EPSILON);
    }
}
