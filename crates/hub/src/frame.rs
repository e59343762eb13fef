//! The frames of connections that carry chunks, on top of [`syncline_protocol::wire`]. The number in a frame's header
//! is the worker's request, or the number of workers that contributed to a hub's value.

use syncline_protocol::wire::{FrameKind, Header};

/// A worker's request about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Add the payload to the worker's next step.
    Push,
    /// The same, and send the result back.
    PushPull,
    /// Send the chunk's value after a step, or a later value.
    Pull,
    /// Replace the chunk's value by the payload.
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

    /// Returns the request with this number.
    pub(super) const fn of(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Push),
            1 => Some(Self::PushPull),
            2 => Some(Self::Pull),
            3 => Some(Self::Set),
            _ => None,
        }
    }

    /// Returns the header of a request about a chunk. `step` is the step that the worker pushes; for a pull, the least
    /// step that it wants.
    pub(super) const fn header(self, epoch: u16, step: u64, chunk: u32) -> Header {
        Header { kind: FrameKind::Message(self.number()), epoch, sequence: step as u32, chunk }
    }
}

/// A change of the job, which a worker sends on all its connections. It holds from the worker's next push on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Notice {
    /// A restarted worker takes part: its rank, and the random number that it chose when it was started.
    Admit { worker: u32, incarnation: u64 },
    /// The learning rate changes, of one vector or of all.
    Rate { rate: f64, key: Option<u32> },
}

/// A flag in the number of contributors, between hubs: this is the sum of all racks.
pub(super) const TOTAL: u16 = 0x8000;

/// The number of frames that set a chunk's value at the hubs of other racks, before the first step.
pub(super) const GIVEN: u16 = 0x4000;

/// The epoch of connections between hubs, whose own epochs for the same job may differ.
pub(super) const PEERS: u16 = 0;

/// The length of a notice in bytes.
pub(super) const NOTICE: usize = 24;

impl Notice {
    /// Encodes the notice in little-endian order.
    pub(super) fn encode(self) -> [u8; NOTICE] {
        let words = match self {
            Self::Admit { worker, incarnation } => [0, u64::from(worker), incarnation],
            Self::Rate { rate, key } => [1, rate.to_bits(), key.map_or(0, |key| u64::from(key) + 1)],
        };
        let mut all = [0; NOTICE];
        for (place, word) in all.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        all
    }

    /// Decodes a notice; `None` if it is invalid.
    pub(super) fn decode(bytes: [u8; NOTICE]) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        match word(0) {
            0 => u32::try_from(word(8)).ok().map(|worker| Self::Admit { worker, incarnation: word(16) }),
            1 => {
                let rate = Some(f64::from_bits(word(8))).filter(|rate| rate.is_finite() && *rate >= 0.0)?;
                let key = word(16).checked_sub(1).map(u32::try_from).transpose().ok()?;
                Some(Self::Rate { rate, key })
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
        fn a_notice_is_decoded_as_it_was_encoded(worker in any::<u32>(), number in any::<u64>(), rate in 0.0f64..1e9) {
            for notice in [
                Notice::Admit { worker, incarnation: number },
                Notice::Rate { rate, key: None },
                Notice::Rate { rate, key: Some(worker) },
            ] {
                prop_assert_eq!(Notice::decode(notice.encode()), Some(notice));
            }
        }

        #[test]
        fn decoded_rates_are_finite_and_not_negative(bytes in any::<[u8; NOTICE]>()) {
            if let Some(Notice::Rate { rate, .. }) = Notice::decode(bytes) {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
    }

    #[test]
    fn numbers_of_verbs_round_trip() {
        for number in 0..=5 {
            assert_eq!(Verb::of(number).map_or(number, Verb::number), number);
        }
    }
}
