//! Numbered slots that are reused.

/// Values by number; freed numbers are reused.
#[derive(Debug, Default)]
pub(crate) struct Slab<T> {
    places: Vec<T>,
    unused: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), unused: Vec::new() }
    }
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.unused.pop() {
            Some(number) => {
                self.places[number as usize] = value;
                number
            }
            None => {
                self.places.push(value);
                (self.places.len() - 1) as u32
            }
        }
    }
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> T {
        self.unused.push(number);
        std::mem::take(&mut self.places[number as usize])
    }
    /// Returns all slots; freed ones are as [`Self::remove`] left them.
    pub(crate) fn places(&self) -> &[T] {
        &self.places
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.places[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.places[number as usize]
    }
}
