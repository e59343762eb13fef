//! Units of ZeRO-3: parts of the model whose parameters are gathered for each use.
//!
//! Each layer, the embedding and the output layer is a unit (`fully_shard` of PyTorch, as torchtitan and Megatron-FSDP call it).
//! The gather of a unit begins with the unit before; that of the first unit of a pass, which has just been released, with the
//! pass. Gradients of a unit are reduced once it has computed. Gathers and reductions share links, on which one is carried out
//! after the other. So the first gathers and the last reductions of a micro-batch have nothing to hide behind, and others as much
//! as a unit computes. A gather that does not overlap with computing shares the links with the reduction before it.

/// What a unit takes in a micro-batch, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Unit {
    /// Computing, forward and backward, with all exchanges within the unit but `tokens`.
    pub computing: [f64; 2],
    /// Tokens to experts and back on the links of gathers and reductions, forward and backward.
    pub tokens: [f64; 2],
    /// A gather of its parameters.
    pub gather: f64,
    /// The reduction of its gradients.
    pub reduce: f64,
    /// Once a step, the sum of parts of gradients among ranks that hold the same one (HSDP).
    pub sum: f64,
}

/// Which exchanges go on while units compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Gathers.
    pub gathers: bool,
    /// Reductions.
    pub reductions: bool,
}

/// Micro-batches after which each further one takes as long.
const EXECUTED: u32 = 3;

/// Seconds until a step of `micro_batches` has computed, and all its gradients are reduced.
pub fn seconds(units: &[Unit], micro_batches: u32, hidden: Hidden) -> f64 {
    let executed = micro_batches.clamp(1, EXECUTED);
    let (mut rank, mut begins) = (Rank { now: 0.0, free: 0.0, hidden }, [0.0; EXECUTED as usize]);
    for batch in 0..executed {
        begins[batch as usize] = rank.now;
        rank.pass(units.iter(), 0, false);
        rank.pass(units.iter().rev(), 1, batch + 1 == executed);
    }
    let further = f64::from(micro_batches.max(1) - executed);
    let each = if further > 0.0 { begins[2] - begins[1] } else { 0.0 };
    rank.now.max(rank.free) + further * each
}

/// A rank, as all others.
struct Rank {
    /// When it has computed what it has so far.
    now: f64,
    /// When its links are free.
    free: f64,
    hidden: Hidden,
}

impl Rank {
    /// An exchange that begins once the links are free, and when it ends.
    fn exchange(&mut self, seconds: f64) -> f64 {
        self.free = self.free.max(self.now) + seconds;
        self.free
    }

    /// A gather that begins at once, and when it ends: it shares the links with a reduction that goes on, each at half its rate.
    fn beside(&mut self, seconds: f64) -> f64 {
        let shared = (self.free - self.now).clamp(0.0, seconds);
        self.free = self.free.max(self.now) + seconds;
        self.now + seconds + shared
    }

    /// One pass through all units.
    fn pass<'a>(&mut self, units: impl Iterator<Item = &'a Unit>, pass: usize, last: bool) {
        let mut units = units.peekable();
        let mut there = units.peek().map_or(self.now, |first| self.exchange(first.gather));
        while let Some(unit) = units.next() {
            let next = match units.peek() {
                Some(next) if self.hidden.gathers => self.exchange(next.gather),
                _ => 0.0,
            };
            self.now = self.now.max(there);
            self.compute(unit, pass);
            if pass == 1 {
                let reduced = self.exchange(unit.reduce + if last { unit.sum } else { 0.0 });
                if !self.hidden.reductions {
                    self.now = reduced;
                }
            }
            there = match units.peek() {
                Some(next) if !self.hidden.gathers => self.beside(next.gather),
                _ => next,
            };
        }
    }

    /// A unit's own work: its tokens travel in the middle of it and at one end, and share the links with what is on them.
    fn compute(&mut self, unit: &Unit, pass: usize) {
        for _ in 0..2 {
            if pass == 1 {
                self.send(unit.tokens[1] / 2.0);
            }
            self.now += unit.computing[pass] / 2.0;
            if pass == 0 {
                self.send(unit.tokens[0] / 2.0);
            }
        }
    }

    /// Tokens that share the links with an exchange that goes on: each is as long later as the other one shares them.
    fn send(&mut self, seconds: f64) {
        let shared = (self.free - self.now).clamp(0.0, seconds);
        self.now += seconds + shared;
        self.free += shared;
    }
}
