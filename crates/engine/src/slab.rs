//! Numbered slots that are reused: memory grows with the number of live values, not of all values ever.

use std::collections::BTreeSet;

/// A pool of numbered values.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores `value` and returns its number.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = value;
                id
            }
            None => {
                self.slots.push(value);
                self.slots.len() as u32 - 1
            }
        }
    }
    /// Frees number `id`. Its value stays readable until the number is reused.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }
    /// All slots, including free ones.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut()
    }
    /// The live values, by number.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &T> {
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        self.slots.iter().zip(0..).filter(move |(_, id)| !free.contains(id)).map(|(value, _)| value)
    }
    /// Number of live values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.slots[id as usize]
    }
}
impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.slots[id as usize]
    }
}
