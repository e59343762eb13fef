//! A job's vectors, cut into chunks: fine-grained key chunking (luo2020, section 3.2.3).
//!
//! A chunk is the unit of work of a core, of messages and of load balancing. With small chunks, a core sums the first
//! ones long before the whole vector has arrived, and a chunk stays in the core's cache while the workers'
//! contributions arrive.

use std::ops::Range;
use syncline_reduction::Element;
use syncline_units::cut;

/// The default bytes of a chunk: the best size in luo2020, section 6.1.7.
pub const CHUNK: u32 = 32 << 10;

/// The most bytes of a chunk.
pub const LARGEST: u32 = 64 << 20;

/// The most chunks of a job.
pub const MAX_CHUNKS: u64 = 1 << 22;

/// A vector that all workers of a job push, such as a layer's gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name in the job.
    pub name: String,
    /// The type of its elements.
    pub element: Element,
    /// The number of its elements.
    pub elements: u64,
}

impl Key {
    /// Returns the bytes of the vector; `None` on overflow.
    pub fn bytes(&self) -> Option<u64> {
        self.elements.checked_mul(self.element.bytes() as u64)
    }
}

/// A part of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the vector in the job's order.
    pub key: u32,
    /// Its first element.
    pub first: u64,
    /// The number of its elements.
    pub elements: u64,
}

/// The vectors of a job and their chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    keys: Vec<Key>,
    /// The number of each vector's first chunk, then the number of all chunks.
    firsts: Vec<u32>,
}

impl Catalogue {
    /// Cuts vectors into chunks of about `chunk` bytes. Chunks of one vector differ by at most one element.
    ///
    /// # Errors
    /// A sentence: the chunk size or the number of chunks is not allowed, or two vectors have the same name.
    pub fn new(keys: Vec<Key>, chunk: u32) -> Result<Self, String> {
        if !(64..=LARGEST).contains(&chunk) {
            return Err(format!("`chunk` is {chunk} bytes: it must be 64 to {LARGEST}"));
        }
        let mut names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two vectors have the name `{}`", twice[0]));
        }
        let mut firsts = vec![0];
        let mut all = 0u64;
        for key in &keys {
            let bytes = key.bytes().ok_or_else(|| format!("`{}` has 2^64 bytes or more", key.name))?;
            all = all.saturating_add(bytes.div_ceil(u64::from(chunk)));
            if all > MAX_CHUNKS {
                return Err(format!(
                    "the vectors have more than {MAX_CHUNKS} chunks of {chunk} bytes: use larger chunks"
                ));
            }
            firsts.push(all as u32);
        }
        Ok(Self { keys, firsts })
    }

    /// Returns the vectors.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns the number of chunks of all vectors.
    pub fn chunks(&self) -> u32 {
        *self.firsts.last().expect("it ends with the number of all chunks")
    }

    /// Returns the numbers of a vector's chunks.
    pub fn chunks_of(&self, key: u32) -> Range<u32> {
        self.firsts[key as usize]..self.firsts[key as usize + 1]
    }

    /// Returns the part of a vector that a chunk is.
    ///
    /// # Panics
    /// Panics if there is no such chunk.
    pub fn piece(&self, chunk: u32) -> Piece {
        assert!(chunk < self.chunks(), "chunk {chunk} of {}", self.chunks());
        let key = self.firsts.partition_point(|&first| first <= chunk) - 1;
        let (index, of) = (chunk - self.firsts[key], self.firsts[key + 1] - self.firsts[key]);
        let elements = self.keys[key].elements;
        let first = cut(elements, index, of);
        Piece { key: key as u32, first, elements: cut(elements, index + 1, of) - first }
    }

    /// Returns the bytes of a chunk.
    pub fn bytes(&self, chunk: u32) -> u64 {
        let piece = self.piece(chunk);
        piece.elements * self.keys[piece.key as usize].element.bytes() as u64
    }

    /// Returns the place of a chunk in its vector, in bytes.
    pub fn place(&self, chunk: u32) -> Range<usize> {
        let piece = self.piece(chunk);
        let width = self.keys[piece.key as usize].element.bytes() as u64;
        (piece.first * width) as usize..((piece.first + piece.elements) * width) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(name: &str, elements: u64) -> Key {
        Key { name: name.to_owned(), element: Element::F32, elements }
    }

    #[test]
    fn chunks_of_a_vector_tile_it() {
        let keys = vec![key("a", 100), key("none", 0), key("b", 33)];
        let catalogue = Catalogue::new(keys, 64).unwrap();
        assert_eq!(catalogue.chunks_of(0), 0..7);
        assert!(catalogue.chunks_of(1).is_empty());
        assert_eq!(catalogue.chunks_of(2), 7..10);
        assert_eq!(catalogue.piece(7), Piece { key: 2, first: 0, elements: 11 });
        assert_eq!(catalogue.place(9), 88..132);
    }

    #[test]
    fn invalid_sizes_and_names_are_refused() {
        let refused = |keys: Vec<Key>, chunk| Catalogue::new(keys, chunk).unwrap_err();
        assert!(refused(vec![key("a", 1), key("a", 2)], 64).contains("two vectors have the name `a`"));
        assert!(refused(vec![key("a", 1)], 63).contains("64 to"));
        assert!(refused(vec![key("a", u64::MAX)], 64).contains("2^64 bytes or more"));
        assert!(refused(vec![key("a", 1 << 40)], 64).contains("use larger chunks"));
    }

    proptest! {
        #[test]
        fn every_element_is_in_one_chunk(
            sizes in prop::collection::vec(0u64..500, 0..6),
            chunk in 64u32..400,
        ) {
            let keys = sizes.iter().enumerate().map(|(i, &elements)| key(&i.to_string(), elements)).collect();
            let catalogue = Catalogue::new(keys, chunk).unwrap();
            for (number, &elements) in (0u32..).zip(&sizes) {
                let mut at = 0;
                for each in catalogue.chunks_of(number) {
                    let piece = catalogue.piece(each);
                    prop_assert_eq!((piece.key, piece.first), (number, at));
                    prop_assert!(piece.elements > 0 && catalogue.bytes(each) <= u64::from(chunk) + 4);
                    at += piece.elements;
                }
                prop_assert_eq!(at, elements);
            }
        }
    }
}
