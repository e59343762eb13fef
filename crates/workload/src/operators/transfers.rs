//! What servers send each other for two neighbouring operators, given their divisions.

use super::graph::Reads;
use syncline_units::Bytes;

/// How an operator is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// The pieces that the parts of an operator read of an input, whatever its size: they depend on the two divisions alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceMap {
    /// By reader and then by source.
    shares: Vec<PieceShare>,
    /// Into how many shares the tensor of all samples is cut.
    of: u64,
    /// Whether all pieces have equal size.
    even: bool,
}

/// A piece whose size is a share of the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceShare {
    source: u32,
    reader: u32,
    /// The share as a multiple of 1 / [`PieceMap::of`].
    share: u32,
}

impl PieceMap {
    /// The pieces of an input divided as `source`, of which a part of the reader needs what `reads` says.
    pub fn new(source: Split, reader: Split, reads: Reads) -> Self {
        let of = |split: Split| (u64::from(split.samples), u64::from(split.parameters));
        let ((sources, source_slices), (readers, reader_slices)) = (of(source), of(reader));
        let slices = source_slices * reader_slices;
        let mut shares = Vec::new();
        for (i, j) in (0..readers).flat_map(|i| (0..reader_slices).map(move |j| (i, j))) {
            // The sources of these samples follow each other, and so do those of these features.
            let (first, last) = (i * sources / readers, ((i + 1) * sources - 1) / readers);
            let wanted = match reads {
                Reads::Own => (j * source_slices, (j + 1) * source_slices),
                Reads::All => (0, slices),
            };
            for (k, l) in (first..=last).flat_map(|k| (0..source_slices).map(move |l| (k, l))) {
                let samples = overlap((i * sources, (i + 1) * sources), (k * readers, (k + 1) * readers));
                let features = overlap(wanted, (l * reader_slices, (l + 1) * reader_slices));
                if features > 0 {
                    let (source, reader) = (k * source_slices + l, i * reader_slices + j);
                    let share = (samples * features) as u32;
                    shares.push(PieceShare { source: source as u32, reader: reader as u32, share });
                }
            }
        }
        let even = shares.windows(2).all(|pair| pair[0].share == pair[1].share);
        Self { shares, of: sources * readers * slices, even }
    }

    /// The pieces of a tensor of `output` for each of `samples` samples. Sizes are rounded up to whole bytes.
    pub fn pieces(&self, output: Bytes, samples: u64) -> impl Iterator<Item = Piece> + '_ {
        let whole = u128::from(samples) * u128::from(output.0);
        let size = move |share: u32| {
            u64::try_from((whole * u128::from(share)).div_ceil(u128::from(self.of))).unwrap_or(u64::MAX)
        };
        let even = self.shares.first().filter(|_| self.even).map(|piece| size(piece.share));
        self.shares.iter().map(move |&PieceShare { source, reader, share }| Piece {
            source,
            reader,
            bytes: even.unwrap_or_else(|| size(share)),
        })
    }

    /// Whether each part reads the part of the same number, and no other.
    pub fn is_one_to_one(&self) -> bool {
        self.shares
            .iter()
            .enumerate()
            .all(|(at, piece)| piece.source as usize == at && piece.reader as usize == at)
    }
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
        PieceMap::new(split(source), split(reader), if own { Reads::Own } else { Reads::All })
            .pieces(Bytes(12), 24)
            .map(|piece| (piece.source, piece.reader, piece.bytes))
            .collect()
    }

    #[test]
    fn readers_divided_by_samples_get_their_samples() {
        // 24 samples of 12 bytes.
        assert_eq!(all((2, 1), (2, 1), false), [(0, 0, 144), (1, 1, 144)]);
        assert_eq!(all((1, 1), (3, 1), false), [(0, 0, 96), (0, 1, 96), (0, 2, 96)]);
        assert_eq!(all((2, 1), (3, 1), false), [(0, 0, 96), (0, 1, 48), (1, 1, 48), (1, 2, 96)]);
    }

    #[test]
    fn readers_divided_by_parameters_get_all_features_or_their_own() {
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
        fn transfers_equal_those_counted_byte_by_byte(
            source in (1u32..5, 1u32..5), reader in (1u32..5, 1u32..5), own: bool,
        ) {
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
            let reads = if own { Reads::Own } else { Reads::All };
            let found: Vec<_> = PieceMap::new(split(source), split(reader), reads)
                .pieces(Bytes(output), samples)
                .map(|piece| ((piece.reader, piece.source), piece.bytes))
                .collect();
            prop_assert_eq!(found.len(), counted.len());
            prop_assert_eq!(found.into_iter().collect::<std::collections::BTreeMap<_, _>>(), counted);
        }
    }
}
