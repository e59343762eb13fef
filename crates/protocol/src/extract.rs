//! Removes entries from a map.

use std::collections::BTreeMap;

/// Removes the entries for which `gone` returns true, and returns them in order of their keys.
pub fn take_out<K: Ord + Clone, V>(
    map: &mut BTreeMap<K, V>,
    mut gone: impl FnMut(&K, &V) -> bool,
) -> Vec<(K, V)> {
    let keys: Vec<K> =
        map.iter().filter(|(key, value)| gone(key, value)).map(|(key, _)| key.clone()).collect();
    keys.into_iter().filter_map(|key| map.remove_entry(&key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_entries_are_removed_and_the_rest_stays() {
        let mut map: BTreeMap<u32, u32> = (0..6).map(|number| (number, number * number)).collect();
        let odd = take_out(&mut map, |_, value| value % 2 == 1);
        assert_eq!(odd, [(1, 1), (3, 9), (5, 25)]);
        assert_eq!(map.into_keys().collect::<Vec<_>>(), [0, 2, 4]);
    }
}
