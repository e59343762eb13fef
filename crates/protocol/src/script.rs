//! Scripts: one seat's plan, compiled for lanes. A script says which steps each step enables, and which step takes
//! each message.
//!
//! The messages from one seat to another are numbered by channel, then by their number in the plan. Both ends number
//! them alike, so two bytes identify a message in a frame.

use crate::operation::Association;
use crate::wire::FIRST_CONTROL_CODE;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::dag::{Action, Node, SeatPlan};
use syncline_plan::program::part;
use syncline_plan::{Algorithm, Blocks, Buffer, Seat};
use syncline_units::{CollectiveKind, Extent};

/// Blocks within a stream's part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub stream: u32,
    pub blocks: Blocks,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepAction {
    Fetch,
    Send { to: u32, message: u16, part: Part },
    Receive { from: u32, message: u16, part: Part, reduce: bool, turn: Option<Turn> },
    Copy { from: Part, to: Part, reduce: bool },
    Join,
    Deliver,
}

/// When a contribution is combined: its place in the order of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub group: u32,
    pub place: u32,
}

/// Receives that wait for the same steps and reduce into the same blocks, in the order of seats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderedReceives {
    /// The steps of the receives.
    pub steps: Vec<u32>,
    /// How many of them precede the seat's own contribution.
    pub before: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct ScriptStep {
    pub act: StepAction,
    /// Number of steps that must be done before this one.
    pub missing: u32,
    followers: Range<u32>,
}

/// The compiled plan of one seat.
#[derive(Clone, Debug)]
pub struct Script {
    seat: Seat,
    streams: u32,
    split: bool,
    result: Buffer,
    steps: Vec<ScriptStep>,
    followers: Vec<u32>,
    /// For each sending seat, the steps that take its messages, by message number.
    incoming: BTreeMap<u32, Vec<u32>>,
    /// Seats to which this one sends.
    outgoing: BTreeSet<u32>,
    groups: Vec<OrderedReceives>,
    /// Scratch slots in use for each slot size. The key is the number of blocks that a chunk is divided into; a slot
    /// holds one.
    scratch: BTreeMap<u32, u32>,
}

impl Script {
    /// Compiles the plan of seat `index` for `kind` on `ranks` ranks.
    ///
    /// # Errors
    /// [`Code::NoPlan`] if the algorithm does not offer the collective; [`Code::BadValue`] if the plan is too large,
    /// or if it does not determine an order in which contributions could be combined by seat.
    pub fn of(
        algorithm: &dyn Algorithm,
        kind: CollectiveKind,
        ranks: u32,
        index: u32,
        association: Association,
    ) -> Result<Self> {
        let seat = Seat { kind, ranks, index, stream: 0, reverse: false };
        let plan = SeatPlan::of(algorithm, seat)?;
        let streams = algorithm.streams(kind, ranks);
        let split = streams > 1 && algorithm.split();
        let mut script = Self {
            seat,
            streams,
            split,
            result: algorithm.result(kind),
            steps: Vec::with_capacity(plan.nodes.len()),
            followers: Vec::new(),
            incoming: BTreeMap::new(),
            outgoing: BTreeSet::new(),
            groups: Vec::new(),
            scratch: BTreeMap::new(),
        };
        let mut after: Vec<Vec<u32>> = plan.nodes.iter().map(|node| node.after.clone()).collect();
        script.number(&plan.nodes, algorithm.name())?;
        script.measure();
        script.keep_what_is_sent(&mut after);
        if association == Association::Seats {
            script.order(&plan.nodes, &mut after, algorithm.name())?;
        }
        script.link(&after);
        Ok(script)
    }

    /// Makes a step of each node, and numbers the messages of each pair of seats.
    fn number(&mut self, nodes: &[Node], name: &str) -> Result<()> {
        let mut sent: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
        let mut received: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
        for (index, node) in (0u32..).zip(nodes) {
            match node.action {
                Action::Send { to, channel, number, .. } => {
                    sent.entry(to).or_default().push((channel, number, index));
                }
                Action::Receive { from, channel, number, .. } => {
                    received.entry(from).or_default().push((channel, number, index));
                }
                _ => {}
            }
        }
        let mut numbers: BTreeMap<u32, u16> = BTreeMap::new();
        for messages in sent.values_mut().chain(received.values_mut()) {
            messages.sort_unstable();
            if messages.len() >= usize::from(FIRST_CONTROL_CODE) {
                let message = format!("`{name}` sends too many messages between two ranks for one chunk");
                return Err(Diagnostic::error(Code::BadValue, message)
                    .found(messages.len().to_string())
                    .allowed(format!("at most {FIRST_CONTROL_CODE}"))
                    .into());
            }
            numbers.extend((0..).zip(messages.iter()).map(|(number, &(_, _, index))| (index, number)));
        }
        self.outgoing = sent.into_keys().collect();
        self.incoming = received
            .into_iter()
            .map(|(from, messages)| (from, messages.into_iter().map(|(_, _, index)| index).collect()))
            .collect();
        for (index, node) in (0u32..).zip(nodes) {
            let part = |blocks| Part { stream: node.stream, blocks };
            let act = match node.action {
                Action::Fetch => StepAction::Fetch,
                Action::Send { to, blocks, .. } => {
                    StepAction::Send { to, message: numbers[&index], part: part(blocks) }
                }
                Action::Receive { from, blocks, reduce, .. } => StepAction::Receive {
                    from,
                    message: numbers[&index],
                    part: part(blocks),
                    reduce,
                    turn: None,
                },
                Action::Copy { from, to, reduce } => {
                    StepAction::Copy { from: part(from), to: part(to), reduce }
                }
                Action::Join => StepAction::Join,
                Action::Deliver => StepAction::Deliver,
            };
            self.steps.push(ScriptStep { act, missing: 0, followers: 0..0 });
        }
        Ok(())
    }

    /// Counts the scratch slots that the plan uses.
    fn measure(&mut self) {
        for step in &self.steps {
            let parts = match step.act {
                StepAction::Send { part, .. } | StepAction::Receive { part, .. } => [Some(part), None],
                StepAction::Copy { from, to, .. } => [Some(from), Some(to)],
                StepAction::Fetch | StepAction::Join | StepAction::Deliver => [None, None],
            };
            for Blocks { buffer, first, count, of } in parts.into_iter().flatten().map(|part| part.blocks) {
                if buffer == Buffer::Scratch {
                    let slots = self.scratch.entry(of).or_default();
                    *slots = (*slots).max(first + count);
                }
            }
        }
    }

    /// Makes steps that overwrite the source of an earlier send wait until it has been sent. A plan assumes that a
    /// send takes its data at once; a lane sends it from where it lies.
    fn keep_what_is_sent(&self, after: &mut [Vec<u32>]) {
        let whole = Extent::whole(1 << 40).len();
        let mut sends: BTreeMap<(u8, u64), Vec<(u64, u32)>> = BTreeMap::new();
        let mut longest = 0;
        for (index, step) in (0u32..).zip(&self.steps) {
            let part = match step.act {
                StepAction::Send { part, .. } => {
                    let Extent { start, end } = self.extent(part, whole);
                    longest = longest.max(end - start);
                    sends.entry((part.blocks.buffer as u8, start)).or_default().push((end, index));
                    continue;
                }
                StepAction::Receive { part, .. } | StepAction::Copy { to: part, .. } => part,
                StepAction::Fetch | StepAction::Join | StepAction::Deliver => continue,
            };
            let Extent { start, end } = self.extent(part, whole);
            let buffer = part.blocks.buffer as u8;
            let near = sends.range((buffer, start.saturating_sub(longest))..(buffer, end));
            let overwritten = near.flat_map(|(_, sends)| sends).filter(|&&(end, _)| end > start);
            after[index as usize].extend(overwritten.map(|&(_, send)| send));
        }
    }

    /// Puts contributions that may arrive in any order into the order of seats.
    fn order(&mut self, nodes: &[Node], after: &mut [Vec<u32>], name: &str) -> Result<()> {
        let groups = self.unordered(nodes, after, name)?;
        let from = |index: u32| match nodes[index as usize].action {
            Action::Receive { from, .. } => from,
            _ => u32::MAX,
        };
        // A group of one contribution has no order to keep.
        for (number, mut steps) in (0u32..).zip(groups.into_iter().filter(|group| group.len() > 1)) {
            steps.sort_by_key(|&index| (from(index), index));
            let mut own = false;
            for (place, &index) in (0u32..).zip(&steps) {
                if let StepAction::Receive { part, turn, .. } = &mut self.steps[index as usize].act {
                    *turn = Some(Turn { group: number, place });
                    own = part.blocks.buffer == Buffer::Data && self.seat.index < self.seat.ranks;
                }
            }
            let before = steps.iter().filter(|&&index| own && from(index) < self.seat.index).count() as u32;
            self.groups.push(OrderedReceives { steps, before });
        }
        Ok(())
    }

    /// Groups the receives that reduce into the same blocks and may arrive in any order. Receives that overlap in
    /// other ways are made to run in the order of the program. The later one may wait for the earlier one, because
    /// within a stream no step depends on the later one alone.
    fn unordered(&self, nodes: &[Node], after: &mut [Vec<u32>], name: &str) -> Result<Vec<Vec<u32>>> {
        let whole = Extent::whole(1 << 40).len();
        let refusal = |why: &str| {
            Diagnostic::error(Code::BadValue, format!("`{name}` combines contributions {why}"))
                .help("combine them as they arrive")
        };
        let mut groups: Vec<(Part, Vec<u32>)> = Vec::new();
        for (index, step) in (0u32..).zip(&self.steps) {
            let StepAction::Receive { part, reduce: true, .. } = step.act else { continue };
            let extent = self.extent(part, whole);
            let mut member = None;
            for (number, (other, group)) in groups.iter().enumerate() {
                let covered = self.extent(*other, whole);
                let apart = other.blocks.buffer != part.blocks.buffer
                    || covered.end <= extent.start
                    || extent.end <= covered.start;
                if apart {
                    continue;
                }
                if other.stream != part.stream {
                    return Err(refusal("in several streams, without a defined order").into());
                }
                if *other == part && nodes[group[0] as usize].after == nodes[index as usize].after {
                    member = Some(number);
                } else if member.is_some() {
                    return Err(refusal("to overlapping blocks, without a defined order").into());
                } else {
                    after[index as usize].extend(group);
                }
            }
            match member {
                Some(number) => groups[number].1.push(index),
                None => groups.push((part, vec![index])),
            }
        }
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }

    /// Inverts the dependencies: computes the followers of each step.
    fn link(&mut self, after: &[Vec<u32>]) {
        let mut followers: Vec<Vec<u32>> = vec![Vec::new(); self.steps.len()];
        for (index, before) in (0u32..).zip(after) {
            let before: BTreeSet<u32> = before.iter().copied().collect();
            self.steps[index as usize].missing = before.len() as u32;
            before.into_iter().for_each(|step| followers[step as usize].push(index));
        }
        for (step, followers) in self.steps.iter_mut().zip(followers) {
            let start = self.followers.len() as u32;
            self.followers.extend(followers);
            step.followers = start..self.followers.len() as u32;
        }
    }

    /// The collective that the script runs.
    pub fn kind(&self) -> CollectiveKind {
        self.seat.kind
    }

    /// Seats that this one sends to or receives from.
    pub fn peers(&self) -> BTreeSet<u32> {
        self.incoming.keys().chain(&self.outgoing).copied().collect()
    }

    pub(crate) fn seat(&self) -> Seat {
        self.seat
    }

    pub(crate) fn steps(&self) -> &[ScriptStep] {
        &self.steps
    }

    pub(crate) fn groups(&self) -> &[OrderedReceives] {
        &self.groups
    }

    pub(crate) fn followers(&self, step: u32) -> &[u32] {
        let Range { start, end } = self.steps[step as usize].followers;
        &self.followers[start as usize..end as usize]
    }

    /// The step that takes message `number` from `seat`.
    pub(crate) fn incoming(&self, seat: u32, number: u16) -> Option<u32> {
        self.incoming.get(&seat)?.get(usize::from(number)).copied()
    }

    pub(crate) fn result(&self) -> Buffer {
        self.result
    }

    /// The elements of its buffer that a part covers, in a chunk of `elements`.
    pub(crate) fn extent(&self, part_of: Part, elements: u64) -> Extent {
        let Part { stream, blocks } = part_of;
        if blocks.buffer == Buffer::Scratch {
            let mut start = 0;
            for (&of, &slots) in self.scratch.range(..blocks.of) {
                start += u64::from(slots) * elements.div_ceil(u64::from(of));
            }
            let slot = elements.div_ceil(u64::from(blocks.of));
            let start = start + u64::from(blocks.first) * slot;
            return Extent { start, end: start + u64::from(blocks.count) * slot };
        }
        let whole = part(self.streams, self.split, stream, Extent::whole(elements));
        blocks.extent(self.seat.space(blocks.buffer, whole))
    }

    /// The size of a buffer in elements, for a chunk of `elements`.
    pub(crate) fn room(&self, buffer: Buffer, elements: u64) -> u64 {
        match buffer {
            Buffer::Data => elements,
            Buffer::Output if self.result == Buffer::Output => {
                self.seat.space(buffer, Extent::whole(elements)).len().max(elements)
            }
            Buffer::Output => 0,
            Buffer::Scratch => self
                .scratch
                .iter()
                .map(|(&of, &slots)| u64::from(slots) * elements.div_ceil(u64::from(of)))
                .sum(),
        }
    }
}
