//! Numbered slots that are reused: memory follows what is alive, not what ever was.

use std::collections::BTreeSet;

/// A pool of values by number.
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
    /// Gives number `id` back. Its value stays readable until the number is used again.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }
    /// Every slot, those that are free included.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut()
    }
    /// What is alive, by number.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &T> {
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        self.slots.iter().zip(0..).filter(move |(_, id)| !free.contains(id)).map(|(value, _)| value)
    }
    /// How many are alive.
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
