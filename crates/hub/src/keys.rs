//! A job's vectors, cut into chunks: fine-grained key chunking (luo2020, section 3.2.3).
//!
//! A chunk is what a core works on, what a message carries and what is balanced. Small ones let a sum begin long before a
//! vector has come, and stay in a core's cache while the workers' contributions come in.

use std::ops::Range;
use syncline_reduction::Element;
use syncline_units::cut;

/// Bytes of a chunk, unless told otherwise: the best of luo2020, section 6.1.7.
pub const CHUNK: u32 = 32 << 10;

/// Most bytes of a chunk.
pub const LARGEST: u32 = 64 << 20;

/// Most chunks of a job on one hub.
pub const MOST: u64 = 1 << 22;

/// A vector that a job's workers have in common, such as a layer's gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What the job calls it.
    pub name: String,
    /// What its elements are.
    pub element: Element,
    /// How many there are.
    pub elements: u64,
}

impl Key {
    /// Bytes of the vector, if that is a number at all.
    pub fn bytes(&self) -> Option<u64> {
        self.elements.checked_mul(self.element.bytes() as u64)
    }
}

/// A run of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which vector, in the job's order.
    pub key: u32,
    /// Its first element.
    pub first: u64,
    /// How many elements there are.
    pub elements: u64,
}

/// The vectors of a job and their chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    keys: Vec<Key>,
    /// The number of each vector's first chunk, and of all.
    firsts: Vec<u32>,
}

impl Catalogue {
    /// Vectors in chunks of about `chunk` bytes: chunks of one vector differ by one element at most.
    ///
    /// # Errors
    /// A sentence: a chunk size or a number of chunks beyond what is allowed, or two vectors of one name.
    pub fn new(keys: Vec<Key>, chunk: u32) -> Result<Self, String> {
        if !(64..=LARGEST).contains(&chunk) {
            return Err(format!("chunks of {chunk} bytes: 64 to {LARGEST} are allowed"));
        }
        let mut names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two keys are called `{}`", twice[0]));
        }
        let mut firsts = vec![0];
        let mut all = 0u64;
        for key in &keys {
            let bytes = key.bytes().ok_or_else(|| format!("`{}` is longer than memory can be", key.name))?;
            all = all.saturating_add(bytes.div_ceil(u64::from(chunk)));
            if all > MOST {
                return Err(format!("more than {MOST} chunks of {chunk} bytes: take larger ones"));
            }
            firsts.push(all as u32);
        }
        Ok(Self { keys, firsts })
    }

    /// The vectors.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Number of chunks of all vectors.
    pub fn chunks(&self) -> u32 {
        *self.firsts.last().expect("there is always the end")
    }

    /// The chunks of a vector.
    pub fn chunks_of(&self, key: u32) -> Range<u32> {
        self.firsts[key as usize]..self.firsts[key as usize + 1]
    }

    /// What a chunk is.
    ///
    /// # Panics
    /// Where there is no such chunk.
    pub fn piece(&self, chunk: u32) -> Piece {
        assert!(chunk < self.chunks(), "chunk {chunk} of {}", self.chunks());
        let key = self.firsts.partition_point(|&first| first <= chunk) - 1;
        let (index, of) = (chunk - self.firsts[key], self.firsts[key + 1] - self.firsts[key]);
        let elements = self.keys[key].elements;
        let first = cut(elements, index, of);
        Piece { key: key as u32, first, elements: cut(elements, index + 1, of) - first }
    }

    /// Bytes of a chunk.
    pub fn bytes(&self, chunk: u32) -> u64 {
        let piece = self.piece(chunk);
        piece.elements * self.keys[piece.key as usize].element.bytes() as u64
    }

    /// Where a chunk lies in its vector, in bytes.
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
    fn what_cannot_be_cut_is_told() {
        let refused = |keys: Vec<Key>, chunk| Catalogue::new(keys, chunk).unwrap_err();
        assert!(refused(vec![key("a", 1), key("a", 2)], 64).contains("two keys are called `a`"));
        assert!(refused(vec![key("a", 1)], 63).contains("64 to"));
        assert!(refused(vec![key("a", u64::MAX)], 64).contains("longer than memory"));
        assert!(refused(vec![key("a", 1 << 40)], 64).contains("take larger ones"));
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
