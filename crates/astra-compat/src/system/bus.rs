//! The LogGP model of a rank's shared memory bus (`model-shared-bus`): every insertion of a collective crosses the bus
//! between the NPU and the memory access unit, and on the NPU's side a second bus to the memory. ASTRA-sim 2, `MemBus.cc`,
//! `LogGP.cc`, `MemMovRequest.cc`.
//!
//! A bus has two sides. A transfer takes the overhead `o` (or the rest of the gap `g` since the previous
//! transfer), `G` for each byte after the first, and `L + o` at the receiver. Data that must be reduced are
//! reduced where they arrive, and data that must be sent back then cross the bus again. A side that has sent
//! [`TURN`] times in a row lets the other side go first.

use super::timers::Timer;
use crate::world::World;
use std::collections::VecDeque;
use syncline_formats::astra2::SharedBus;

/// Number of transfers in a row after which a side lets the other go first.
const TURN: u32 = 8;
/// `G` of the memory's own bus, in nanoseconds per byte.
const MEMORY_GAP_PER_BYTE: f64 = 0.0038;

/// The sides of a rank's two buses.
pub(crate) const NPU: usize = 0;
/// The memory access unit, opposite the NPU.
pub(crate) const UNIT: usize = 1;
/// The near side of the bus to the memory.
const NEAR: usize = 2;
/// The memory, opposite the near side.
const MEMORY: usize = 3;

/// Returns the other side of the same bus.
const fn opposite(side: usize) -> usize {
    side ^ 1
}

/// An insertion into the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Insertion {
    pub(crate) bytes: u64,
    /// Whether it is reduced locally.
    pub(crate) reduce: bool,
    /// Whether it goes from the NPU to the memory access unit, rather than back.
    pub(crate) to_unit: bool,
    /// Whether it comes back over the bus after it has arrived.
    pub(crate) send_back: bool,
}

/// What happened to a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BusEvent {
    /// It has sent.
    Sent,
    /// It has received.
    Received,
    /// It has reduced.
    Reduced,
}

/// Who is notified when a request is complete.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A stream, whose insertion still needs the local reduction if `reduce`.
    Stream { stream: u32, bytes: u64, reduce: bool },
    /// A request of the NPU's side that has been to the memory, and its next step.
    Request { request: Request, next: Next },
}

/// What follows a trip to the memory.
#[derive(Clone, Copy, Debug)]
enum Next {
    Send,
    Reduce,
    Retire,
}

/// Data that cross a bus.
#[derive(Clone, Copy, Debug)]
struct Request {
    bytes: i32,
    reduce: bool,
    send_back: bool,
    /// For an insertion, its stream and whether its own reduction follows; on the bus to the memory, the
    /// number of an [`Owner`].
    owner: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum State {
    #[default]
    Free,
    Sending,
    Receiving,
}

/// One side of a bus.
#[derive(Debug, Default)]
struct Side {
    state: State,
    before: State,
    last_transfer: u64,
    /// Number of transfers in a row.
    in_a_row: u32,
    reducing: bool,
    sends: VecDeque<Request>,
    receives: VecDeque<Request>,
    reductions: VecDeque<Request>,
}

/// The buses of a rank.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    sides: [Side; 4],
    owners: crate::slab::Slab<Option<Owner>>,
}

impl World<'_> {
    /// Puts an insertion on the bus of its rank.
    pub(crate) fn cross_bus(&mut self, rank: u32, stream: u32, insertion: Insertion) {
        let Insertion { bytes, reduce, to_unit, send_back } = insertion;
        let owner = self.own(rank, Owner::Stream { stream, bytes, reduce });
        let request = Request { bytes: bytes as i32, reduce, send_back, owner };
        self.request(rank, if to_unit { NPU } else { UNIT }, request);
    }

    fn own(&mut self, rank: u32, owner: Owner) -> u32 {
        self.ranks[rank as usize].bus.owners.insert(Some(owner))
    }

    fn side(&mut self, rank: u32, side: usize) -> &mut Side {
        &mut self.ranks[rank as usize].bus.sides[side]
    }

    fn request(&mut self, rank: u32, side: usize, request: Request) {
        if side == NPU {
            // First it is read from the memory.
            self.visit_memory(rank, MEMORY, request, Next::Send, false);
            return;
        }
        self.side(rank, side).sends.push_back(request);
        self.send_if_free(rank, side);
    }

    /// Sends a request of the NPU's side over the bus to the memory, starting at side `from`.
    fn visit_memory(&mut self, rank: u32, from: usize, request: Request, next: Next, send_back: bool) {
        let owner = self.own(rank, Owner::Request { request, next });
        self.request(rank, from, Request { bytes: request.bytes, reduce: false, send_back, owner });
    }

    /// Sends the first waiting request if the side is free and has its turn.
    fn send_if_free(&mut self, rank: u32, side: usize) {
        let sides = &self.ranks[rank as usize].bus.sides;
        let (own, other) = (&sides[side], &sides[opposite(side)]);
        if own.state != State::Free || own.sends.is_empty() {
            return;
        }
        if own.in_a_row > TURN && !other.sends.is_empty() && other.in_a_row <= TURN {
            self.send_if_free(rank, opposite(side));
            return;
        }
        let now = self.now;
        let Some(bus) = self.settings.shared_bus else { return };
        let SharedBus { latency, overhead, gap, .. } = bus;
        let per_byte = if side < NEAR { bus.gap_per_byte } else { MEMORY_GAP_PER_BYTE };
        let own = self.side(rank, side);
        let Some(request) = own.sends.pop_front() else { return };
        let idle = now - own.last_transfer;
        let offset =
            if own.before == State::Sending && overhead + idle <= gap { gap - idle } else { overhead };
        own.state = State::Sending;
        let bytes = per_byte * f64::from(request.bytes - 1);
        let other = self.side(rank, opposite(side));
        other.receives.push_back(request);
        other.before = other.state;
        other.state = State::Receiving;
        other.in_a_row = 0;
        let received = offset as f64 + bytes + latency as f64 + overhead as f64;
        self.set_timer(
            rank,
            received as u64,
            Timer::Bus { side: opposite(side) as u8, event: BusEvent::Received },
        );
        self.set_timer(
            rank,
            (offset as f64 + bytes) as u64,
            Timer::Bus { side: side as u8, event: BusEvent::Sent },
        );
    }

    /// Handles an event of a side.
    pub(crate) fn bus_event(&mut self, rank: u32, side: usize, event: BusEvent) {
        let now = self.now;
        let own = self.side(rank, side);
        match event {
            BusEvent::Sent => {
                own.last_transfer = now;
                own.before = own.state;
                own.state = State::Free;
                own.in_a_row += 1;
            }
            BusEvent::Received => {
                own.last_transfer = now;
                own.before = own.state;
                if own.receives.len() < 2 {
                    own.state = State::Free;
                }
                self.received_on_bus(rank, side);
            }
            BusEvent::Reduced => {
                own.reducing = false;
                let Some(&request) = own.reductions.front() else { return };
                self.is_over(rank, side, request, |side| &mut side.reductions);
                self.start_reducing(rank, side);
            }
        }
        self.send_if_free(rank, side);
    }

    fn received_on_bus(&mut self, rank: u32, side: usize) {
        let own = self.side(rank, side);
        let Some(&request) = own.receives.front() else { return };
        if !request.reduce {
            self.is_over(rank, side, request, |side| &mut side.receives);
            return;
        }
        own.receives.pop_front();
        let request = Request { reduce: false, ..request };
        if side == NPU {
            self.visit_memory(rank, NEAR, request, Next::Reduce, true);
        } else {
            own.reductions.push_back(request);
        }
        self.start_reducing(rank, side);
    }

    fn start_reducing(&mut self, rank: u32, side: usize) {
        let Some(bus) = self.settings.shared_bus else { return };
        let own = self.side(rank, side);
        if own.reducing {
            return;
        }
        let Some(request) = own.reductions.front() else { return };
        let time = (request.bytes.max(0) / 100) as u64 * bus.reduction_delay + 50;
        own.reducing = true;
        self.set_timer(rank, time, Timer::Bus { side: side as u8, event: BusEvent::Reduced });
    }

    /// Handles a request at the front of a list that has completed its purpose there: it is sent back or
    /// over.
    fn is_over(
        &mut self,
        rank: u32,
        side: usize,
        request: Request,
        list: fn(&mut Side) -> &mut VecDeque<Request>,
    ) {
        if request.send_back {
            list(self.side(rank, side)).pop_front();
            let request = Request { send_back: false, ..request };
            if side == NPU {
                self.visit_memory(rank, NEAR, request, Next::Send, true);
            } else {
                self.side(rank, side).sends.push_back(request);
            }
        } else if side == NPU {
            list(self.side(rank, side)).pop_front();
            self.visit_memory(rank, NEAR, request, Next::Retire, false);
        } else {
            // It leaves the list only after its owner was notified.
            self.tell_owner(rank, request.owner);
            list(self.side(rank, side)).pop_front();
        }
    }

    fn tell_owner(&mut self, rank: u32, owner: u32) {
        let Some(owner) = self.ranks[rank as usize].bus.owners.remove(owner) else { return };
        match owner {
            Owner::Stream { stream, bytes, reduce } => self.inserted(rank, stream, bytes, reduce),
            Owner::Request { request, next } => {
                match next {
                    Next::Send => self.side(rank, NPU).sends.push_back(request),
                    Next::Reduce => {
                        self.side(rank, NPU).reductions.push_back(request);
                        self.start_reducing(rank, NPU);
                    }
                    Next::Retire => self.tell_owner(rank, request.owner),
                }
                self.send_if_free(rank, NPU);
            }
        }
    }
}
