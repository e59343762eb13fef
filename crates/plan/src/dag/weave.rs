//! Turns the sequential programs of a seat into nodes with edges.

use super::{Action, MAX_NODES, Node};
use crate::program::{Algorithm, Op, Seat};
use crate::verify::diagnostics;
use crate::walk::{Fault, Site};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::Extent;

/// If a node would wait for more nodes than this, it waits for an [`Action::Join`] instead.
const WIDEST: usize = 4;

/// Progress in turning a stream's program into nodes.
#[derive(Default)]
struct Thread {
    pc: u32,
    /// The nodes that every further node depends on.
    frontier: Vec<u32>,
    /// Receives that no wait has covered yet, and the frontier that each depends on.
    open: Vec<(u32, Vec<u32>)>,
    /// The node of each instruction, and the frontier after it.
    passed: Vec<(Option<u32>, Vec<u32>)>,
    /// For each other stream, how many of its instructions this one has already waited for.
    waited: Vec<u32>,
    ended: bool,
}

/// Turns the programs of one seat into nodes.
pub(super) struct Weaver<'a> {
    algorithm: &'a dyn Algorithm,
    seat: Seat,
    threads: Vec<Thread>,
    nodes: Vec<Node>,
    most: usize,
    /// Whether other streams may need to know what a stream has passed.
    several: bool,
    numbers: BTreeMap<(bool, u32, u32), u32>,
}

impl<'a> Weaver<'a> {
    pub(super) fn new(algorithm: &'a dyn Algorithm, seat: Seat, streams: u32, most: usize) -> Self {
        let mut nodes = Vec::new();
        let mut start = Vec::new();
        if !seat.input(Extent::whole(u64::from(seat.ranks))).is_empty() {
            nodes.push(Node { stream: 0, action: Action::Fetch, after: Vec::new() });
            start.push(0);
        }
        let thread =
            || Thread { frontier: start.clone(), waited: vec![0; streams as usize], ..Thread::default() };
        let threads = (0..streams).map(|_| thread()).collect();
        Self { algorithm, seat, threads, nodes, most, several: streams > 1, numbers: BTreeMap::new() }
    }

    pub(super) fn weave(mut self) -> Result<Vec<Node>, Diagnostics> {
        loop {
            let mut moved = false;
            for stream in 0..self.threads.len() {
                while !self.threads[stream].ended && self.advance(stream)? {
                    moved = true;
                }
            }
            if self.threads.iter().all(|thread| thread.ended) {
                break;
            }
            if !moved {
                let sentence = "streams wait for each other in a circle".to_owned();
                let stream = self.threads.iter().position(|thread| !thread.ended).unwrap_or(0);
                let site = Site { seat: self.seat.index, stream: stream as u32, pc: self.threads[stream].pc };
                return Err(diagnostics(&[Fault::at(site, sentence)]));
            }
        }
        if !self.seat.output(Extent::whole(u64::from(self.seat.ranks))).is_empty() {
            let mut after = Vec::new();
            for stream in 0..self.threads.len() {
                self.wait(stream);
                after.extend_from_slice(&self.threads[stream].frontier);
            }
            after.sort_unstable();
            after.dedup();
            self.nodes.push(Node { stream: 0, action: Action::Deliver, after });
        }
        Ok(self.nodes)
    }

    /// Turns one instruction into a node. Returns false if it must wait for another stream.
    fn advance(&mut self, stream: usize) -> Result<bool, Diagnostics> {
        let seat = Seat { stream: stream as u32, ..self.seat };
        let mut node = None;
        match self.algorithm.op(&seat, self.threads[stream].pc) {
            None => {
                self.threads[stream].ended = true;
                return Ok(true);
            }
            Some(Op::Wait) => {
                self.wait(stream);
                self.join(stream)?;
            }
            Some(Op::After { stream: other, ops }) => {
                if !self.after(stream, other as usize, ops) {
                    return Ok(false);
                }
                self.join(stream)?;
            }
            Some(Op::Send { to, blocks }) => {
                let (channel, number) = self.number(&seat, true, to);
                node = Some(self.node(stream, Action::Send { to, blocks, channel, number })?);
            }
            Some(Op::Receive { from, blocks, reduce }) => {
                let (channel, number) = self.number(&seat, false, from);
                let receive = self.node(stream, Action::Receive { from, blocks, reduce, channel, number })?;
                let frontier = self.threads[stream].frontier.clone();
                self.threads[stream].open.push((receive, frontier));
                node = Some(receive);
            }
            Some(Op::Copy { from, to, reduce }) => {
                let copy = self.node(stream, Action::Copy { from, to, reduce })?;
                self.threads[stream].frontier = vec![copy];
                node = Some(copy);
            }
        }
        let thread = &mut self.threads[stream];
        thread.pc += 1;
        if self.several {
            thread.passed.push((node, thread.frontier.clone()));
        }
        Ok(true)
    }

    fn node(&mut self, stream: usize, action: Action) -> Result<u32, Diagnostics> {
        if self.nodes.len() + 1 >= self.most {
            return Err(Diagnostic::error(Code::BadValue, "the plan is too large to be written out")
                .allowed(format!("at most {MAX_NODES} nodes"))
                .into());
        }
        let after = self.threads[stream].frontier.clone();
        self.nodes.push(Node { stream: stream as u32, action, after });
        Ok((self.nodes.len() - 1) as u32)
    }

    fn number(&mut self, seat: &Seat, send: bool, peer: u32) -> (u32, u32) {
        let channel = self.algorithm.channel(seat);
        let next = self.numbers.entry((send, peer, channel)).or_default();
        *next += 1;
        (channel, *next - 1)
    }

    /// All open receives become the frontier, together with the nodes that they do not imply.
    fn wait(&mut self, stream: usize) {
        let thread = &mut self.threads[stream];
        if thread.open.is_empty() {
            return;
        }
        let open = std::mem::take(&mut thread.open);
        let implied = open.iter().any(|(_, frontier)| *frontier == thread.frontier);
        let mut frontier: Vec<u32> = open.into_iter().map(|(receive, _)| receive).collect();
        if !implied {
            frontier.extend_from_slice(&thread.frontier);
            frontier.sort_unstable();
        }
        thread.frontier = frontier;
    }

    /// Replaces a wide frontier by one node.
    fn join(&mut self, stream: usize) -> Result<(), Diagnostics> {
        if self.threads[stream].frontier.len() > WIDEST {
            let join = self.node(stream, Action::Join)?;
            self.threads[stream].frontier = vec![join];
        }
        Ok(())
    }

    /// Adds the first `ops` instructions of another stream to the frontier, including its sends and copies.
    fn after(&mut self, stream: usize, other: usize, ops: u32) -> bool {
        let Some(thread) = self.threads.get(other) else { return false };
        if thread.pc < ops {
            return false;
        }
        let waited = self.threads[stream].waited[other];
        if ops > waited {
            let mut frontier = self.threads[stream].frontier.clone();
            let passed = &self.threads[other].passed[waited as usize..ops as usize];
            frontier.extend_from_slice(&passed[passed.len() - 1].1);
            let sends = passed
                .iter()
                .filter_map(|(node, _)| *node)
                .filter(|&node| matches!(self.nodes[node as usize].action, Action::Send { .. }));
            frontier.extend(sends);
            frontier.sort_unstable();
            frontier.dedup();
            self.threads[stream].frontier = frontier;
            self.threads[stream].waited[other] = ops;
        }
        true
    }
}
