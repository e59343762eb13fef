//! Records which work followed which.
//!
//! All messages of a chain that belong to one phase of one collective share a stretch: the next message makes a
//! longer copy of it. Unreferenced stretches are dropped from time to time (`collect`).

use crate::savings::Earlier;
use crate::stretch::{Moment, Purpose, StoredTier, Stretch, StretchId, Work};
use crate::sums::Sums;
use std::num::NonZeroU32;
use syncline_units::{TierId, Time};

/// Number of stretches that are recorded before unreferenced ones are dropped for the first time.
const FEW: usize = 1 << 14;

/// Where a stretch comes from: the stretch before it, when that ended, and what the new stretch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The stretch before, or [`StretchId::START`].
    pub after: StretchId,
    /// When that ended.
    pub since: Time,
    /// What the new stretch belongs to.
    pub of: Purpose,
}

impl Origin {
    /// The origin of everything while nothing is recorded.
    pub const UNKNOWN: Self = Self { after: StretchId::START, since: Time::ZERO, of: Purpose::UNKNOWN };

    /// This origin, but after `stretch`, which ended at `since`.
    #[inline]
    pub fn after(&self, stretch: StretchId, since: Time) -> Self {
        Self { after: stretch, since, of: self.of }
    }

    /// Moves it by a time that the engine skips.
    pub fn shift(&mut self, by: Time) {
        self.since = self.since.saturating_add(by);
    }

    /// The preceding stretch, for the visits that drop unreferenced stretches.
    pub fn stretch_mut(&mut self) -> &mut StretchId {
        &mut self.after
    }
}

/// The way of a message to a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The sending NPU.
    pub from: u32,
    /// The receiving NPU.
    pub to: u32,
    /// Number of links passed before the port. It distinguishes hops of symmetric messages over links of one class,
    /// which share a port.
    pub hop: u32,
}

/// The last message that kept a port busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The message's stretch, which ends when the port is free.
    pub stretch: StretchId,
    /// The message's way to the port.
    pub route: Route,
    /// How long the port was busy with it.
    pub time: Time,
    /// When the port became free.
    pub free: Moment,
}

impl Tail {
    /// Visits the stretches that this refers to.
    pub fn visit(&mut self, visit: &mut dyn FnMut(&mut StretchId)) {
        visit(&mut self.stretch);
        visit(self.free.stretch_mut());
    }
}

impl Default for Tail {
    fn default() -> Self {
        Self { stretch: StretchId::START, route: Route::default(), time: Time::ZERO, free: Moment::NONE }
    }
}

/// The unit of an NPU that a task works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The compute unit.
    Compute,
    /// Memory.
    Memory,
}

/// Iterations that the engine skipped because they repeat earlier ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    /// When they were skipped, on the trail's clock.
    pub(crate) at: u64,
    /// Length of one iteration.
    pub(crate) length: u64,
    /// Number of iterations skipped.
    pub(crate) times: u64,
}

/// Records stretches.
#[derive(Debug, Default)]
pub struct Trail {
    pub(crate) on: bool,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) earlier: Earlier,
    /// Number of stretches at which unreferenced ones are dropped.
    pub(crate) limit: usize,
    /// By message number: its stretch.
    pub(crate) messages: Vec<StretchId>,
    /// The stretch with which the most recently sent message leaves its NPU.
    left: StretchId,
    /// The latest number of a visit; 0 before the first.
    visits: u32,
    /// Simulated time that the engine has skipped so far.
    pub(crate) skipped: u64,
    pub(crate) repeats: Vec<Repeat>,
    /// Sums of the chains before stretches whose chain was too long to keep.
    pub(crate) sums: Vec<Sums>,
}

impl Trail {
    /// A trail that records, for a network with `tiers` tiers of links.
    pub fn writing(tiers: usize) -> Self {
        Self { on: true, limit: FEW, left: StretchId::START, earlier: Earlier::new(tiers), ..Self::default() }
    }

    /// Whether it records.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Stops recording, and frees the memory.
    pub fn stop(&mut self) {
        self.on = false;
        (self.stretches, self.messages, self.earlier) = Default::default();
    }

    /// Whether unreferenced stretches should be dropped.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.stretches.len() > self.limit
    }

    /// A new number for a collective or a single message.
    #[inline]
    pub fn visit(&mut self) -> NonZeroU32 {
        let next = NonZeroU32::new(self.visits.wrapping_add(1)).unwrap_or(NonZeroU32::MIN);
        self.visits = next.get();
        next
    }

    /// Converts `time` to the trail's clock, which stands still while the engine skips iterations.
    #[inline]
    pub(crate) fn clock(&self, time: Time) -> u64 {
        time.0.wrapping_sub(self.skipped)
    }

    /// Notes that the engine skips `times` iterations of `length` at `now`.
    pub fn leave_out(&mut self, now: Time, length: Time, times: u32) {
        let at = self.clock(now);
        self.repeats.push(Repeat { at, length: length.0, times: u64::from(times) });
        self.skipped = self.skipped.wrapping_add(length.0.wrapping_mul(u64::from(times)));
    }

    /// Appends a new stretch.
    #[inline]
    fn begin(&mut self, origin: &Origin, work: Work, tier: StoredTier) -> StretchId {
        let (start, before) = (self.clock(origin.since), origin.after);
        match self.stretches.get(before.index()) {
            Some(stretch) => self.earlier.follow(before, stretch, start),
            None => self.earlier.begin(),
        }
        let of = origin.of;
        self.stretches.push(Stretch { start, bytes: 0, queueing: 0, reduction: 0, before, of, tier, work });
        StretchId::at(self.stretches.len() - 1)
    }

    /// Appends `stretch`, a changed copy of stretch `number`.
    #[inline]
    fn copy(&mut self, stretch: Stretch, number: StretchId) -> StretchId {
        self.earlier.copy(number);
        self.stretches.push(stretch);
        StretchId::at(self.stretches.len() - 1)
    }

    /// The next stretch of messages, to which `change` adds. If the stretch before belongs to the same phase and
    /// tier, this is a longer copy of it, else a new one.
    #[inline]
    fn messages(
        &mut self,
        origin: &Origin,
        tier: StoredTier,
        change: impl FnOnce(&mut Stretch),
    ) -> StretchId {
        let number = match self.stretches.get(origin.after.index()) {
            Some(&before)
                if before.of.goes_on(&origin.of)
                    && (before.tier == tier
                        || before.tier == StoredTier::NONE
                        || tier == StoredTier::NONE) =>
            {
                let tier = if tier == StoredTier::NONE { before.tier } else { tier };
                self.copy(Stretch { of: origin.of, tier, ..before }, origin.after)
            }
            _ => self.begin(origin, Work::Messages, tier),
        };
        change(&mut self.stretches[number.index()]);
        number
    }

    /// A task begins to work on a unit of its NPU.
    #[inline]
    pub fn begin_work(&mut self, origin: &Origin, unit: Unit) -> StretchId {
        if !self.on {
            return StretchId::START;
        }
        let work = match unit {
            Unit::Compute => Work::Compute,
            Unit::Memory => Work::Memory,
        };
        self.begin(origin, work, StoredTier::NONE)
    }

    /// A message reaches a port at `time`.
    #[inline]
    pub fn reach_port(&mut self, origin: &Origin, time: Time) -> Moment {
        if time == origin.since || !self.on {
            return self.moment(origin.after, time);
        }
        let stretch = self.messages(origin, StoredTier::NONE, |_| ());
        self.moment(stretch, time)
    }

    /// The bytes of a message take `time` on a link of `tier`.
    #[inline]
    pub fn bytes(&mut self, origin: &Origin, tier: TierId, time: Time) -> StretchId {
        if !self.on {
            return StretchId::START;
        }
        self.messages(origin, StoredTier::new(Some(tier)), |stretch| stretch.bytes += time.0)
    }

    /// A message waits for messages of others on a link of `tier`, if it is known.
    #[inline]
    pub fn queueing(&mut self, origin: &Origin, tier: Option<TierId>, time: Time) -> StretchId {
        if !self.on {
            return StretchId::START;
        }
        self.messages(origin, StoredTier::new(tier), |stretch| stretch.queueing += time.0)
    }

    /// Combining a message with local data takes `time`.
    #[inline]
    pub fn reduces(&mut self, origin: &Origin, time: Time) -> StretchId {
        if !self.on {
            return StretchId::START;
        }
        self.messages(origin, StoredTier::NONE, |stretch| stretch.reduction += time.0)
    }

    /// The stretch that a message follows after waiting for a busy port: the stretch of the message ahead, whose
    /// bytes count as queueing unless they are the sender's own.
    #[inline]
    pub fn behind(&mut self, tail: &Tail, route: Route, own: bool, waited: Time) -> StretchId {
        if own || tail.route == route {
            return tail.stretch;
        }
        let Some(&stretch) = self.stretches.get(tail.stretch.index()) else { return StretchId::START };
        let time = waited.min(tail.time).0.min(stretch.bytes);
        let bytes = stretch.bytes - time;
        self.copy(Stretch { bytes, queueing: stretch.queueing + time, ..stretch }, tail.stretch)
    }

    /// Notes the stretch with which message `id` arrives; latency may follow.
    #[inline]
    pub fn arrives(&mut self, id: u32, stretch: StretchId) {
        if !self.on {
            return;
        }
        if self.messages.len() <= id as usize {
            self.messages.resize(id as usize + 1, StretchId::START);
        }
        self.messages[id as usize] = stretch;
    }

    /// Message `id` goes from an NPU to itself, in no time.
    pub fn deliver_locally(&mut self, origin: &Origin, id: u32) {
        if self.on {
            let stretch = self.messages(origin, StoredTier::NONE, |_| ());
            self.leaves(stretch);
            self.arrives(id, stretch);
        }
    }

    /// Removes and returns the stretch of message `id`, which has arrived.
    #[inline]
    pub fn take(&mut self, id: u32) -> StretchId {
        self.messages
            .get_mut(id as usize)
            .map_or(StretchId::START, |stretch| std::mem::replace(stretch, StretchId::START))
    }

    /// Notes the stretch with which the message that is being sent leaves its NPU.
    #[inline]
    pub fn leaves(&mut self, stretch: StretchId) {
        self.left = stretch;
    }

    /// The stretch with which the most recently sent message leaves its NPU.
    #[inline]
    pub fn left(&self) -> StretchId {
        self.left
    }
}
