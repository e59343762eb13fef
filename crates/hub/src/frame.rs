//! The frames of connections that carry chunks, on top of [`syncline_protocol::wire`]. The number in a frame's header
//! is the worker's request; from a hub to a worker, the number of workers that contributed to the value; between hubs, a
//! [`RackFrame`].

use super::terms::MAX_WORKERS;
use syncline_protocol::operation::Request;
use syncline_protocol::wire::{FrameKind, Header};

/// The number of a request in the frames of workers.
const fn request_number(request: Request) -> u16 {
    match request {
        Request::Push => 0,
        Request::PushPull => 1,
        Request::Pull => 2,
        Request::Set => 3,
    }
}

/// Returns the request with this number.
pub(super) const fn request_of(number: u16) -> Option<Request> {
    match number {
        0 => Some(Request::Push),
        1 => Some(Request::PushPull),
        2 => Some(Request::Pull),
        3 => Some(Request::Set),
        _ => None,
    }
}

/// Returns the header of a request about a chunk. `step` is the step that the worker pushes; for a pull, the least step
/// that it wants.
pub(super) const fn request_header(request: Request, epoch: u16, step: u64, chunk: u32) -> Header {
    Header { kind: FrameKind::Message(request_number(request)), epoch, sequence: step as u32, chunk }
}

/// A change of the job, which a worker sends on all its connections. It holds from the worker's next push on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Notice {
    /// A restarted worker takes part: its rank, and the random number that it chose when it was started.
    Admit { worker: u32, incarnation: u64 },
    /// The learning rate changes, of one vector or of all.
    Rate { rate: f64, key: Option<u32> },
    /// The job is saved as it is after the steps that the worker has pushed so far. `number` is the number of its
    /// pushes to all vectors, which names the save at all hubs.
    Save { number: u64 },
}

/// A change of a vector's learning rate, which hubs pass on to other racks before any sum of the step from which it
/// holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RackRate {
    pub(super) key: u32,
    pub(super) rate: f64,
    /// The first step where it holds.
    pub(super) from: u64,
}

/// A frame of a chunk's values between hubs of different racks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RackFrame {
    /// A sum, and how many workers contributed to it. `total` says that it is the sum of all racks.
    Sum { total: bool, contributors: u16 },
    /// Sets the chunk's value before the first step.
    InitialValue,
}

impl RackFrame {
    /// The flag of a total, beside the number of contributors.
    const TOTAL: u16 = 0x8000;
    const INITIAL_VALUE: u16 = 0x4000;

    /// The number of the frame in its header.
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::Sum { total: true, contributors } => contributors | Self::TOTAL,
            Self::Sum { total: false, contributors } => contributors,
            Self::InitialValue => Self::INITIAL_VALUE,
        }
    }

    /// Returns the frame with this number; `None` if it counts more contributors than a job can have workers.
    pub(super) const fn of(number: u16) -> Option<Self> {
        if number == Self::INITIAL_VALUE {
            return Some(Self::InitialValue);
        }
        let (total, contributors) = (number & Self::TOTAL != 0, number & !Self::TOTAL);
        if contributors as u32 > MAX_WORKERS {
            return None;
        }
        Some(Self::Sum { total, contributors })
    }
}

/// The epoch of connections between hubs, whose own epochs for the same job may differ.
pub(super) const PEERS: u16 = 0;

/// The length of a notice in bytes.
pub(super) const NOTICE: usize = 24;

/// Writes words in little-endian order.
fn encode_words(words: [u64; 3]) -> [u8; NOTICE] {
    let mut all = [0; NOTICE];
    for (place, word) in all.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    all
}

fn decode_words(bytes: [u8; NOTICE]) -> [u64; 3] {
    std::array::from_fn(|word| u64::from_le_bytes(std::array::from_fn(|i| bytes[8 * word + i])))
}

/// Returns the rate with these bits, if it is one.
fn rate_of(bits: u64) -> Option<f64> {
    Some(f64::from_bits(bits)).filter(|rate| rate.is_finite() && *rate >= 0.0)
}

impl RackRate {
    /// Encodes the change in little-endian order.
    pub(super) fn encode(self) -> [u8; NOTICE] {
        encode_words([u64::from(self.key), self.rate.to_bits(), self.from])
    }

    /// Decodes a change; `None` if it is invalid.
    pub(super) fn decode(bytes: [u8; NOTICE]) -> Option<Self> {
        let [key, rate, from] = decode_words(bytes);
        Some(Self { key: u32::try_from(key).ok()?, rate: rate_of(rate)?, from })
    }
}

impl Notice {
    /// Encodes the notice in little-endian order.
    pub(super) fn encode(self) -> [u8; NOTICE] {
        encode_words(match self {
            Self::Admit { worker, incarnation } => [0, u64::from(worker), incarnation],
            Self::Rate { rate, key } => [1, rate.to_bits(), key.map_or(0, |key| u64::from(key) + 1)],
            Self::Save { number } => [2, number, 0],
        })
    }

    /// Decodes a notice; `None` if it is invalid.
    pub(super) fn decode(bytes: [u8; NOTICE]) -> Option<Self> {
        let [kind, first, second] = decode_words(bytes);
        match kind {
            0 => u32::try_from(first).ok().map(|worker| Self::Admit { worker, incarnation: second }),
            1 => {
                let rate = rate_of(first)?;
                let key = second.checked_sub(1).map(u32::try_from).transpose().ok()?;
                Some(Self::Rate { rate, key })
            }
            2 => Some(Self::Save { number: first }),
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
                Notice::Save { number },
            ] {
                prop_assert_eq!(Notice::decode(notice.encode()), Some(notice));
            }
        }

        #[test]
        fn a_rate_for_racks_is_decoded_as_it_was_encoded(key in any::<u32>(), from in any::<u64>(), rate in 0.0f64..1e9) {
            let change = RackRate { key, rate, from };
            prop_assert_eq!(RackRate::decode(change.encode()), Some(change));
        }

        #[test]
        fn decoded_rates_are_finite_and_not_negative(bytes in any::<[u8; NOTICE]>()) {
            if let Some(Notice::Rate { rate, .. }) = Notice::decode(bytes) {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
    }

    #[test]
    fn numbers_of_requests_round_trip() {
        for number in 0..=5 {
            assert_eq!(request_of(number).map_or(number, request_number), number);
        }
    }

    #[test]
    fn frames_of_racks_count_no_more_contributors_than_a_job_has_workers() {
        let most = MAX_WORKERS as u16;
        for number in 0..=u16::MAX {
            let valid = number & !RackFrame::TOTAL <= most || number == RackFrame::INITIAL_VALUE;
            assert_eq!(RackFrame::of(number).map(RackFrame::number), valid.then_some(number));
        }
    }
}
