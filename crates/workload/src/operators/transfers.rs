//! What a division of two neighbours makes servers send to each other.

use syncline_units::Bytes;

/// How an operator is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    /// Parts of the samples.
    pub samples: u32,
    /// Parts of the parameters and features.
    pub parameters: u32,
}

impl Split {
    /// Bytes of one part of parameters, rounded up.
    pub fn parameters_of(self, all: Bytes) -> u64 {
        all.0.div_ceil(u64::from(self.parameters))
    }
}

/// What one part of an operator reads of one part of its input, in both directions: the forward pass sends it to the
/// reader, and the backward pass sends as many bytes of gradients back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The part that computes it.
    pub source: u32,
    /// The part that reads it.
    pub reader: u32,
    /// Its size.
    pub bytes: u64,
}

/// What the parts of an operator divided as `reader` read of an input divided as `source`, by reader and then by source.
///
/// `output` is the input's output for one sample, and `samples` those of a step. Where `own` is true, a reader needs the
/// features that it computes itself, else all of them. Sizes are rounded up to whole bytes.
pub fn pieces(
    source: Split,
    reader: Split,
    output: Bytes,
    samples: u64,
    own: bool,
) -> impl Iterator<Item = Piece> {
    let of = |split: Split| (u64::from(split.samples), u64::from(split.parameters));
    let ((sources, source_slices), (readers, reader_slices)) = (of(source), of(reader));
    let slices = source_slices * reader_slices;
    (0..readers).flat_map(move |i| {
        // The sources of these samples follow each other.
        let (first, last) = (i * sources / readers, ((i + 1) * sources - 1) / readers);
        (0..reader_slices).flat_map(move |j| {
            (first..=last).flat_map(move |k| {
                let both = overlap((i * sources, (i + 1) * sources), (k * readers, (k + 1) * readers));
                let wanted = if own { (j * source_slices, (j + 1) * source_slices) } else { (0, slices) };
                let (from, to) =
                    if own { (j * source_slices / reader_slices, source_slices) } else { (0, source_slices) };
                (from..to).filter_map(move |l| {
                    let features = overlap(wanted, (l * reader_slices, (l + 1) * reader_slices));
                    let whole =
                        u128::from(samples) * u128::from(output.0) * u128::from(both) * u128::from(features);
                    let of = u128::from(sources * readers) * u128::from(slices);
                    let bytes = u64::try_from(whole.div_ceil(of)).unwrap_or(u64::MAX);
                    let piece = |bytes| Piece {
                        source: (k * source_slices + l) as u32,
                        reader: (i * reader_slices + j) as u32,
                        bytes,
                    };
                    (features > 0).then(|| piece(bytes))
                })
            })
        })
    })
}

/// Length of what two intervals share.
const fn overlap(one: (u64, u64), other: (u64, u64)) -> u64 {
    let start = if one.0 > other.0 { one.0 } else { other.0 };
    let end = if one.1 < other.1 { one.1 } else { other.1 };
    end.saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(source: (u32, u32), reader: (u32, u32), own: bool) -> Vec<(u32, u32, u64)> {
        let split = |(samples, parameters)| Split { samples, parameters };
        pieces(split(source), split(reader), Bytes(12), 24, own)
            .map(|piece| (piece.source, piece.reader, piece.bytes))
            .collect()
    }

    #[test]
    fn divisions_by_samples() {
        // 24 samples of 12 bytes.
        assert_eq!(all((2, 1), (2, 1), false), [(0, 0, 144), (1, 1, 144)]);
        assert_eq!(all((1, 1), (3, 1), false), [(0, 0, 96), (0, 1, 96), (0, 2, 96)]);
        assert_eq!(all((2, 1), (3, 1), false), [(0, 0, 96), (0, 1, 48), (1, 1, 48), (1, 2, 96)]);
    }

    #[test]
    fn divisions_by_parameters() {
        // Both readers need all features of all samples.
        assert_eq!(all((1, 2), (1, 2), false), [(0, 0, 144), (1, 0, 144), (0, 1, 144), (1, 1, 144)]);
        // Each needs its own half.
        assert_eq!(all((1, 2), (1, 2), true), [(0, 0, 144), (1, 1, 144)]);
        assert_eq!(all((1, 1), (1, 4), true), [(0, 0, 72), (0, 1, 72), (0, 2, 72), (0, 3, 72)]);
        assert_eq!(all((1, 4), (1, 2), true), [(0, 0, 72), (1, 0, 72), (2, 1, 72), (3, 1, 72)]);
    }

    proptest! {
        /// Every byte of every sample, one by one: who computes it, and who reads it.
        #[test]
        fn counted_byte_by_byte(source in (1u32..5, 1u32..5), reader in (1u32..5, 1u32..5), own: bool) {
            let (samples, output) = (60, 60u64);
            let split = |(samples, parameters)| Split { samples, parameters };
            let part = |at: u64, of: u64, parts: u32| (at * u64::from(parts) / of) as u32;
            let mut counted = std::collections::BTreeMap::new();
            for (sample, byte) in (0..samples).flat_map(|sample| (0..output).map(move |byte| (sample, byte))) {
                let from = part(sample, samples, source.0) * source.1 + part(byte, output, source.1);
                for slice in 0..reader.1 {
                    if !own || slice == part(byte, output, reader.1) {
                        let to = part(sample, samples, reader.0) * reader.1 + slice;
                        *counted.entry((to, from)).or_insert(0u64) += 1;
                    }
                }
            }
            let found: Vec<_> = pieces(split(source), split(reader), Bytes(output), samples, own)
                .map(|piece| ((piece.reader, piece.source), piece.bytes))
                .collect();
            prop_assert_eq!(found.len(), counted.len());
            prop_assert_eq!(found.into_iter().collect::<std::collections::BTreeMap<_, _>>(), counted);
        }
    }
}
