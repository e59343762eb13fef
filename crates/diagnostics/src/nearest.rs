//! The nearest valid name.

/// The name among `names` that `found` is most likely a misspelling of, if one is close: equal up to case and
/// separators, or at a Damerau-Levenshtein distance of at most a third of its length. Numbers are never treated as
/// misspelt names.
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let number = found.bytes().any(|byte| byte.is_ascii_digit()) && found.trim().parse::<f64>().is_ok();
    if number {
        return None;
    }
    let fold = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let folded = fold(found);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &fold(name)), name))
        .filter(|&(distance, name)| distance <= (name.chars().count().max(found.chars().count()) / 3).max(1))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_near_misses_get_a_suggestion() {
        let names = ["bandwidth", "latency", "npus_count", "topology"];
        assert_eq!(nearest("bandwith", names), Some("bandwidth"));
        assert_eq!(nearest("NPUs-count", names), Some("npus_count"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        for number in ["-2", "1e30", " 8", "10"] {
            assert_eq!(nearest(number, ["1", "-20", "1e3", "b8", "16"]), None);
        }
    }
}
