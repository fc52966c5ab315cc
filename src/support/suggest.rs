//! Names near to one that was mistyped.

/// The `count` candidates nearest to `wrong`, best first, leaving out those that are nothing like it.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let wrong = wrong.to_lowercase();
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for candidate in candidates {
        let score = likeness(&wrong, &candidate.to_lowercase());
        if score >= ALIKE && !scored.iter().any(|(_, known)| *known == candidate) {
            scored.push((score, candidate));
        }
    }
    // A stable sort: of equally near names the first of the repository's own order wins.
    scored.sort_by(|left, right| right.0.total_cmp(&left.0));
    scored.into_iter().take(count).map(|(_, candidate)| candidate).collect()
}

/// `did you mean 'overlay'?` where something is near enough.
pub fn did_you_mean<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wrong, candidates, 1).first().map(|name| format!("did you mean '{name}'?"))
}

/// [`did_you_mean`], or the list of what there is: short lists are a better answer than nothing.
pub fn did_you_mean_or_list(wrong: &str, what: &str, candidates: &[&str]) -> String {
    did_you_mean(wrong, candidates.iter().copied())
        .unwrap_or_else(|| format!("{what}: {}", candidates.join(", ")))
}

/// Below this, a name is no typing mistake of another one.
const ALIKE: f64 = 0.6;

/// Between 0 and 1. Edits count for typing mistakes; a shared part counts for names given in part.
fn likeness(wrong: &str, candidate: &str) -> f64 {
    if wrong.len() >= 3 && (candidate.contains(wrong) || (candidate.len() >= 3 && wrong.contains(candidate)))
    {
        return 0.9;
    }
    strsim::normalized_damerau_levenshtein(wrong, candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_its_name() {
        assert_eq!(did_you_mean("mian", ["release-0.4", "main"]).unwrap(), "did you mean 'main'?");
        assert_eq!(nearest("hf_fdw", ["hf_fwd", "hf_bwd", "parses"], 3), ["hf_fwd", "hf_bwd"]);
        assert_eq!(nearest("OVERLAYS", ["overlay", "repeat"], 3), ["overlay"]);
    }

    #[test]
    fn nothing_is_suggested_for_what_is_like_nothing() {
        assert_eq!(did_you_mean("zebra", ["main", "overlay"]), None);
        assert_eq!(did_you_mean_or_list("zebra", "formats", &["table", "csv"]), "formats: table, csv");
        assert!(nearest("", ["main"], 3).is_empty());
    }
}
