//! What workers and hubs say on connections for chunks: the frames of [`syncline_protocol::wire`], whose number says what a worker wants
//! or how many workers had a part in what a hub gives.

use syncline_protocol::wire::{Header, Kind};

/// What a worker wants of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// That what it brings becomes part of the step.
    Push,
    /// The same, and the result.
    PushPull,
    /// What the chunk is after a step, or later.
    Pull,
    /// That what it brings takes the place of what there is.
    Set,
}

impl Verb {
    const fn number(self) -> u16 {
        match self {
            Self::Push => 0,
            Self::PushPull => 1,
            Self::Pull => 2,
            Self::Set => 3,
        }
    }

    /// Of a number of a message.
    pub(super) const fn of(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Push),
            1 => Some(Self::PushPull),
            2 => Some(Self::Pull),
            3 => Some(Self::Set),
            _ => None,
        }
    }

    /// The header of what a worker wants of a chunk; `step` is what it pushes or, of a pull, what it wants at least.
    pub(super) const fn header(self, epoch: u16, step: u64, chunk: u32) -> Header {
        Header { kind: Kind::Message(self.number()), epoch, sequence: step as u32, chunk }
    }
}

/// Something about the job that holds from here on, on every connection of the worker that says it: before what it pushes
/// next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Notice {
    /// A worker joins: its rank, and the number that tells it from what it was before.
    Admit(u32, u64),
    /// There is another learning rate, of one vector or of all.
    Rate(f64, Option<u32>),
}

/// Set in the number of contributors, where hubs exchange: this is the sum of all racks, and not of some.
pub(super) const TOTAL: u16 = 0x8000;

/// The number of what hubs of other racks are told that a chunk is, before the first step.
pub(super) const GIVEN: u16 = 0x4000;

/// The epoch of connections among hubs: their jobs' numbers are different.
pub(super) const PEERS: u16 = 0;

/// Bytes of a notice.
pub(super) const NOTICE: usize = 24;

impl Notice {
    /// As bytes, little-endian.
    pub(super) fn encode(self) -> [u8; NOTICE] {
        let words = match self {
            Self::Admit(worker, incarnation) => [0, u64::from(worker), incarnation],
            Self::Rate(rate, key) => [1, rate.to_bits(), key.map_or(0, |key| u64::from(key) + 1)],
        };
        let mut all = [0; NOTICE];
        for (place, word) in all.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        all
    }

    /// Of bytes; none where they make no sense.
    pub(super) fn decode(bytes: [u8; NOTICE]) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        match word(0) {
            0 => u32::try_from(word(8)).ok().map(|worker| Self::Admit(worker, word(16))),
            1 => {
                let rate = Some(f64::from_bits(word(8))).filter(|rate| rate.is_finite() && *rate >= 0.0)?;
                let key = word(16).checked_sub(1).map(u32::try_from).transpose().ok()?;
                Some(Self::Rate(rate, key))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn notices_are_read_as_they_were_written(worker in any::<u32>(), number in any::<u64>(), rate in 0.0f64..1e9) {
            for notice in [Notice::Admit(worker, number), Notice::Rate(rate, None), Notice::Rate(rate, Some(worker))] {
                prop_assert_eq!(Notice::decode(notice.encode()), Some(notice));
            }
        }

        #[test]
        fn garbage_is_no_notice_or_a_sane_one(bytes in any::<[u8; NOTICE]>()) {
            if let Some(Notice::Rate(rate, _)) = Notice::decode(bytes) {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
    }

    #[test]
    fn numbers_are_those_of_verbs() {
        for number in 0..=5 {
            assert_eq!(Verb::of(number).map_or(number, Verb::number), number);
        }
    }
}
