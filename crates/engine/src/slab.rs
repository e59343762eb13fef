//! Slots that are reused: memory grows with the number of live values, not of all values ever.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::{cmp, fmt};

/// The number of a `T` in its [`Slab`]. `Option<Id<T>>` takes four bytes.
pub(crate) struct Id<T> {
    /// The number of the slot, plus one.
    after: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The id of slot `number`.
    #[inline]
    pub(crate) const fn new(number: u32) -> Self {
        Self { after: NonZeroU32::MIN.saturating_add(number), of: PhantomData }
    }

    /// The number of the slot, for events, which carry numbers.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.after.get() - 1
    }
}

// Derived implementations would require the same traits of `T`.
impl<T> Clone for Id<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.after == other.after
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    #[inline]
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.after.cmp(&other.after)
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// A value that does not exist yet, exists in a [`Slab`], or is over. Takes four bytes.
pub(crate) struct Life<T>(u32, PhantomData<fn() -> T>);

/// A [`Life`], to match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status<I> {
    /// It has not begun.
    NotBegun,
    /// It is under way, and has this id.
    UnderWay(I),
    /// It is over.
    Over,
}

impl<T> Life<T> {
    /// Something that has not begun.
    pub(crate) const NOT_BEGUN: Self = Self(0, PhantomData);
    /// Something that is over.
    pub(crate) const OVER: Self = Self(u32::MAX, PhantomData);

    /// Whether it has begun, and whether it is over.
    #[inline]
    pub(crate) fn status(self) -> Status<Id<T>> {
        match NonZeroU32::new(self.0) {
            None => Status::NotBegun,
            Some(NonZeroU32::MAX) => Status::Over,
            Some(after) => Status::UnderWay(Id { after, of: PhantomData }),
        }
    }

    /// Its id, if it is under way.
    #[inline]
    pub(crate) fn under_way(self) -> Option<Id<T>> {
        match self.status() {
            Status::UnderWay(id) => Some(id),
            Status::NotBegun | Status::Over => None,
        }
    }

    /// Whether it is over.
    #[inline]
    pub(crate) const fn is_over(self) -> bool {
        self.0 == u32::MAX
    }
}

impl<T> From<Id<T>> for Life<T> {
    #[inline]
    fn from(id: Id<T>) -> Self {
        Self(id.after.get(), PhantomData)
    }
}
impl<T> Clone for Life<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Life<T> {}
impl<T> fmt::Debug for Life<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

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
    /// Stores `value` and returns its id.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Id<T> {
        Id::new(match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = value;
                number
            }
            None => {
                self.slots.push(value);
                self.slots.len() as u32 - 1
            }
        })
    }
    /// Frees the slot of `id`. Its value stays readable until the slot is reused.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id<T>) {
        self.free.push(id.number());
    }
    /// All slots, including free ones.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut()
    }
    /// The live values, by number.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &T> {
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        self.slots.iter().zip(0..).filter(move |(_, number)| !free.contains(number)).map(|(value, _)| value)
    }
    /// Number of live values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<T> std::ops::Index<Id<T>> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: Id<T>) -> &T {
        &self.slots[id.number() as usize]
    }
}
impl<T> std::ops::IndexMut<Id<T>> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.slots[id.number() as usize]
    }
}
