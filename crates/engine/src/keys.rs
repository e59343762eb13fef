//! Keys: the order among events of one time and kind that belong to collectives.
//!
//! Fields from the highest bit down: number of the collective, chunk, phase, channel, distance from receiver to
//! sender. Each field is wide enough for the chunks, phases and ranks of the job's largest plan, so no two of them
//! share a key. The collective's number takes the remaining bits, at most [`NUMBER_BITS`]; in a job with more
//! collectives the numbers wrap around.

use crate::job::CollectivePlan;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_net_api::calendar::KEY_BITS;

/// Bits of the channel.
const CHANNEL_BITS: u32 = 5;
/// Fewest bits of distance, phase and chunk.
const LEAST: Widths = Widths { distance: 18, phase: 5, chunk: 12 };
/// Most bits of a collective's number.
const NUMBER_BITS: u32 = 20;
/// Fewest bits of a collective's number, so that collectives under way at one time differ.
const FEWEST_NUMBER_BITS: u32 = 8;
/// Bits below a phase that [`Keys::of_phase`] omits: they are 0 in keys about a whole phase.
const BELOW_PHASE: u32 = 8;

/// Widths, in bits, of the fields that depend on the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Widths {
    distance: u32,
    phase: u32,
    chunk: u32,
}

/// Positions of the fields of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    distance: u64,
    channel: u32,
    phase: u32,
    chunk: u32,
    number: u32,
    numbers: u64,
}

/// Bits needed to distinguish `count` things.
fn bits(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

/// Checks that keys can distinguish all chunks, phases and ranks of `plans`.
///
/// # Errors
/// [`Code::BadValue`] for `collectives.chunks`, with the largest possible number of chunks.
pub fn check(plans: &[CollectivePlan]) -> Result<()> {
    let widths = Widths::of(plans);
    let most = Widths { chunk: KEY_BITS - FEWEST_NUMBER_BITS - widths.below_chunk(), ..widths };
    if widths.chunk <= most.chunk {
        return Ok(());
    }
    let chunks = plans.iter().map(|plan| plan.chunks.len()).max().unwrap_or(0);
    let ranks = plans.iter().flat_map(|plan| &plan.phases).map(|phase| phase.axis.size).max().unwrap_or(0);
    let allowed = 1u64 << most.chunk;
    Err(Diagnostic::error(
        Code::BadValue,
        format!("a collective is cut into {chunks} chunks; the limit with phases over {ranks} ranks is {allowed}"),
    )
    .key("collectives.chunks")
    .found(format!("{chunks} chunks"))
    .allowed(format!("at most {allowed} chunks with phases over {ranks} ranks"))
    .help(format!(
        "set `collectives.chunks` to {allowed} or less, or raise `collectives.min_chunk`, so that there are fewer, larger chunks"
    ))
    .into())
}

impl Widths {
    fn of(plans: &[CollectivePlan]) -> Self {
        let phases = || plans.iter().flat_map(|plan| &plan.phases);
        let most = |counts: &mut dyn Iterator<Item = u64>| bits(counts.max().unwrap_or(0));
        Self {
            distance: most(&mut phases().map(|phase| u64::from(phase.axis.size))).max(LEAST.distance),
            phase: most(&mut plans.iter().map(|plan| plan.phases.len() as u64)).max(LEAST.phase),
            chunk: most(&mut plans.iter().map(|plan| plan.chunks.len() as u64)).max(LEAST.chunk),
        }
    }
    fn below_chunk(self) -> u32 {
        self.distance + CHANNEL_BITS + self.phase
    }
}

impl Keys {
    /// Keys for `plans`, which [`check`] has accepted.
    pub(crate) fn new(plans: &[CollectivePlan]) -> Self {
        let widths = Widths::of(plans);
        let number = widths.below_chunk() + widths.chunk;
        Self {
            distance: (1 << widths.distance) - 1,
            channel: widths.distance,
            phase: widths.distance + CHANNEL_BITS,
            chunk: widths.below_chunk(),
            number,
            numbers: 1 << (KEY_BITS - number).min(NUMBER_BITS),
        }
    }

    /// Orders events by collective, chunk and phase, which have the same numbers on all ranks.
    #[inline]
    pub(crate) fn order(&self, number: u64, chunk: u32, phase: u8) -> u64 {
        (number & (self.numbers - 1)) << self.number
            | u64::from(chunk) << self.chunk
            | u64::from(phase) << self.phase
    }

    /// The key of a message: its phase's, then its channel, then the distance from receiver to sender.
    #[inline]
    pub(crate) fn message(&self, order: u64, channel: u32, distance: u32) -> u64 {
        order
            | u64::from(channel & ((1 << CHANNEL_BITS) - 1)) << self.channel
            | u64::from(distance) & self.distance
    }

    /// A message's key without channel and distance.
    #[inline]
    pub(crate) fn of_phase(&self, key: u64) -> u64 {
        key >> self.phase << self.phase
    }

    /// The order of [`Keys::order`] with the generation above it; drops the low bits to make room for the generation.
    #[inline]
    pub(crate) fn in_generation(&self, generation: u8, order: u64) -> u64 {
        u64::from(generation) << GENERATION | order >> BELOW_PHASE
    }

    /// The key without the collective's number.
    pub(crate) fn within(&self, key: u64) -> u64 {
        key & ((1 << self.number) - 1)
    }

    /// The key of the collective whose number is `numbers` higher.
    pub(crate) fn later(&self, key: u64, numbers: u64) -> u64 {
        key.wrapping_add(numbers << self.number)
    }

    /// How many collectives keys can distinguish; with more, the order of keys does not repeat.
    pub(crate) fn numbers(&self) -> u64 {
        self.numbers
    }
}

/// The lowest bit of the generation in keys of [`Keys::in_generation`].
const GENERATION: u32 = KEY_BITS - BELOW_PHASE;

/// The generation in a key of [`Keys::in_generation`].
pub(crate) fn generation(key: u64) -> u8 {
    (key >> GENERATION) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{GroupAxis, PhasePlan};
    use proptest::prelude::*;
    use std::sync::Arc;
    use syncline_plan::algorithm::Ring;
    use syncline_units::{Bytes, CollectiveKind, Extent, Time};

    fn plan(chunks: usize, phases: usize, size: u32) -> CollectivePlan {
        let kind = CollectiveKind::AllReduce;
        let phase = PhasePlan {
            kind,
            axis: GroupAxis { weight: 1, size },
            cuts: Vec::new(),
            root_axes: Vec::new(),
            dim: 0,
            leg: 0,
            algorithm: Arc::new(Ring),
            streams: 1,
            turn: None,
            turned: None,
            pace: None,
        };
        CollectivePlan {
            kind,
            bytes: Bytes(0),
            element: 4,
            chunks: vec![Extent::default(); chunks],
            phases: vec![phase; phases],
            bound: Time::ZERO,
        }
    }

    #[test]
    fn small_jobs_use_the_least_field_widths() {
        let keys = Keys::new(&[plan(16, 2, 8)]);
        assert_eq!((keys.channel, keys.phase, keys.chunk, keys.number), (18, 23, 28, 40));
        assert_eq!(keys.numbers, 1 << 20);
    }

    /// The largest number of chunks that a collective may have, in the largest number of phases that a group can
    /// have.
    #[test]
    fn a_million_chunks_and_all_phases_have_distinct_keys() {
        let plans = [plan(1 << 20, 62, 2)];
        assert!(check(&plans).is_ok());
        let keys = Keys::new(&plans);
        let of = |chunk, phase| keys.order(3, chunk, phase);
        assert!(of(0, 0) < of(0, 61) && of(0, 61) < of(1, 0));
        assert!(of(4095, 0) < of(4096, 0), "not cut to 12 bits");
        assert!(of((1 << 20) - 1, 61) < keys.order(4, 0, 0));
        assert!(keys.order(keys.numbers - 1, (1 << 20) - 1, 61) < 1 << KEY_BITS);
    }

    #[test]
    fn too_many_chunks_are_refused_with_the_limit() {
        let found = check(&[plan(1 << 20, 62, 1 << 24)]).unwrap_err();
        let found = found.to_string();
        assert!(found.contains("is cut into 1048576 chunks"), "{found}");
        assert!(found.contains("at most 131072 chunks with phases over 16777216 ranks"), "{found}");
        assert!(found.contains("set `collectives.chunks` to 131072 or less"), "{found}");
        assert!(check(&[plan(1 << 17, 62, 1 << 24)]).is_ok());
    }

    proptest! {
        /// Keys of messages are ordered like their fields, and keys of generations like their orders.
        #[test]
        fn keys_are_ordered_by_their_fields(
            most in (1usize..5000, 1usize..63, 2u32..1 << 20),
            fields in prop::collection::vec((0u64..200, 0u32..5000, 0u32..63, 0u32..32, 0u32..1 << 20), 2),
            equal in 0usize..5,
        ) {
            let plans = [plan(most.0, most.1, most.2)];
            prop_assume!(check(&plans).is_ok());
            let keys = Keys::new(&plans);
            // Some leading fields are equal, so that each field decides in some cases.
            let [first, mut second] = [fields[0], fields[1]];
            second.0 = if equal > 0 { first.0 } else { second.0 };
            second.1 = if equal > 1 { first.1 } else { second.1 };
            second.2 = if equal > 2 { first.2 } else { second.2 };
            second.3 = if equal > 3 { first.3 } else { second.3 };
            let fields: Vec<_> = [first, second]
                .into_iter()
                .map(|(number, chunk, phase, channel, distance)| {
                    (number, chunk % most.0 as u32, (phase % most.1 as u32) as u8, channel, distance % most.2)
                })
                .collect();
            let key = |&(number, chunk, phase, channel, distance): &(u64, u32, u8, u32, u32)| {
                keys.message(keys.order(number, chunk, phase), channel, distance)
            };
            prop_assert_eq!(key(&fields[0]).cmp(&key(&fields[1])), fields[0].cmp(&fields[1]));
            prop_assert_eq!(keys.of_phase(key(&fields[0])), keys.order(fields[0].0, fields[0].1, fields[0].2));
            let told = |of: &(u64, u32, u8, u32, u32), generation| {
                keys.in_generation(generation, keys.order(of.0, of.1, of.2))
            };
            prop_assert!(told(&fields[0], 1) < told(&fields[1], 2));
            prop_assert_eq!(generation(told(&fields[0], 7)), 7);
            let phases = |of: &(u64, u32, u8, u32, u32)| (of.0, of.1, of.2);
            let order = phases(&fields[0]).cmp(&phases(&fields[1]));
            prop_assert_eq!(told(&fields[0], 1).cmp(&told(&fields[1], 1)), order);
        }
    }
}
