//! A hash table from keys to small numbers, with a fixed hash: open addressing, deletion by shifting back.

/// A key that can be hashed the same way everywhere.
pub(crate) trait Key: Copy + Eq {
    /// Returns 64 bits derived from it.
    fn bits(&self) -> u64;
}

impl Key for (u32, u32) {
    #[inline]
    fn bits(&self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.1)
    }
}

/// A hash table.
pub(crate) struct Table<K> {
    /// Keys and numbers; the capacity is a power of two.
    places: Vec<Option<(K, u32)>>,
    used: usize,
}

/// Spreads bits over a word; the constant is 2^64 divided by the golden ratio.
#[inline]
fn spread(bits: u64) -> u64 {
    let product = u128::from(bits ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15_u128;
    product as u64 ^ (product >> 64) as u64
}

impl<K: Key> Table<K> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), used: 0 }
    }

    #[inline]
    fn home(&self, key: &K) -> usize {
        spread(key.bits()) as usize & (self.places.len() - 1)
    }

    /// Returns the number of `key` and false. A missing key gets the number `new`, and this returns true with it.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, key: K, new: u32) -> (u32, bool) {
        if self.used * 4 >= self.places.len() * 3 {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut at = self.home(&key);
        loop {
            match &self.places[at] {
                Some((known, number)) if *known == key => return (*number, false),
                Some(_) => at = (at + 1) & mask,
                None => {
                    self.places[at] = Some((key, new));
                    self.used += 1;
                    return (new, true);
                }
            }
        }
    }

    /// Removes `key`.
    #[inline]
    pub(crate) fn remove(&mut self, key: K) {
        if self.places.is_empty() {
            return;
        }
        let mask = self.places.len() - 1;
        let mut hole = self.home(&key);
        loop {
            match &self.places[hole] {
                None => return,
                Some((known, _)) if *known == key => break,
                Some(_) => hole = (hole + 1) & mask,
            }
        }
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some((key, number)) = self.places[at] else { break };
            // A key may fill the hole unless its home is between the hole and its slot.
            let from_home = at.wrapping_sub(self.home(&key)) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.places[hole] = Some((key, number));
                hole = at;
            }
        }
        self.places[hole] = None;
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = (self.places.len() * 2).max(64);
        let old = std::mem::replace(&mut self.places, vec![None; capacity]);
        for (key, number) in old.into_iter().flatten() {
            let mut at = self.home(&key);
            while self.places[at].is_some() {
                at = (at + 1) & (capacity - 1);
            }
            self.places[at] = Some((key, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_behaves_like_a_map() {
        let mut table = Table::new();
        let mut model = BTreeMap::new();
        let mut state = 1u64;
        for number in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = ((state >> 40) as u32 % 60, (state >> 50) as u32 % 7);
            if state >> 63 == 0 {
                let expected = model.get(&key).copied();
                let (got, new) = table.find_or_insert(key, number);
                assert_eq!((got, new), (expected.unwrap_or(number), expected.is_none()));
                model.insert(key, got);
            } else {
                table.remove(key);
                model.remove(&key);
            }
        }
        assert_eq!(table.used, model.len());
    }
}
