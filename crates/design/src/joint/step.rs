//! Estimates the time of a training step under a strategy. An estimate takes microseconds.
//!
//! A server computes one operator at a time, in the order of the model forward and in reverse order backward
//! ([`syncline_workload::operators::tasks`] makes the same promise to the simulator). So a step is a sweep over the
//! operators, forward and back, that needs no queue of events:
//!
//! - **Transfers** occupy each link of their route for their bytes over its rate. On a link, a transfer starts when its head
//!   arrives (its ready time plus the latency of the links before) and the link has served all transfers earlier in the
//!   sweep. Queueing on one link does not delay the head on the next. A transfer has arrived when every link has served it.
//! - **Transfers have priority over all-reduces**, for which nothing in the step waits. When the last all-reduce is done, it
//!   does not matter in which order a link has worked: a link that always works when there is work is done at the same
//!   time. So a link needs one number for this, the time when it has done all its work so far. Work is added in the order of
//!   the sweep; where that differs from the order in which it is ready, the time is an upper estimate.
//! - **Reductions inside a server** follow each other.
//!
//! The step ends with the last backward pass or all-reduce.
//!
//! A proposal changes some operators. Everything before the first of these stays, so the sweep resumes from a saved state
//! just before it.

use super::network::{GroupLoad, Loads, PerByte, RoutedLinks};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use syncline_compute::ComputeModel;
use syncline_diagnostics::Result;
use syncline_units::{Bytes, Time};
use syncline_workload::operators::tasks::inside_server;
use syncline_workload::operators::{OperatorGraph, PieceMap, Placed, Reads, Split, Strategy};

/// Operators between two saved states.
const INTERVAL: usize = 4;

/// A model's operators, with the time of each choice.
#[derive(Clone, Debug)]
pub struct Model {
    /// The operators.
    pub graph: OperatorGraph,
    /// For each operator, the operators that read its output, ascending.
    readers: Vec<Vec<Reader>>,
    /// For each operator and choice, the time of a part.
    times: Vec<Vec<PassTimes>>,
    /// For each operator and choice, the gradients of a part.
    gradients: Vec<Vec<Gradient>>,
}

/// An operator that reads the output of another one.
#[derive(Clone, Copy, Debug)]
struct Reader {
    operator: u32,
    /// The position of the output among the reader's inputs.
    input: u32,
}

/// Times of a part of an operator.
#[derive(Clone, Copy, Debug)]
struct PassTimes {
    forward: Time,
    backward: Time,
}

/// The gradients of a part of an operator.
#[derive(Clone, Copy, Debug)]
struct Gradient {
    bytes: Bytes,
    /// How long the accelerators of a server take to reduce them.
    inside: Time,
}

impl Model {
    /// Times the choices of a graph that is checked.
    ///
    /// # Errors
    /// Work that the compute model cannot time.
    pub fn new(graph: OperatorGraph, compute: &ComputeModel) -> Result<Self> {
        let mut readers = vec![Vec::new(); graph.operators.len()];
        let (mut times, mut gradients) = (Vec::new(), Vec::new());
        for (at, operator) in graph.operators.iter().enumerate() {
            for (number, &input) in operator.inputs.iter().enumerate() {
                readers[input as usize].push(Reader { operator: at as u32, input: number as u32 });
            }
            let of = |choice: &syncline_workload::operators::Choice| {
                let (forward, backward) = (compute.time(&choice.forward)?, compute.time(&choice.backward)?);
                let split = Split { samples: choice.samples, parameters: choice.parameters };
                let bytes = split.parameters_of(operator.parameters);
                let times = PassTimes { forward, backward };
                Ok((times, Gradient { bytes: Bytes(bytes), inside: inside_server(&graph, at, bytes)? }))
            };
            let (time, gradient) =
                operator.choices.iter().map(of).collect::<Result<Vec<_>>>()?.into_iter().unzip();
            times.push(time);
            gradients.push(gradient);
        }
        Ok(Self { graph, readers, times, gradients })
    }

    fn operators(&self) -> usize {
        self.graph.operators.len()
    }

    /// The operators that an operator reads or is read by, with the bytes of the tensor for one sample.
    pub fn neighbours(&self, operator: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let operators = &self.graph.operators;
        let read =
            operators[operator].inputs.iter().map(|&at| (at as usize, operators[at as usize].output.0));
        let output = operators[operator].output.0;
        let readers = self.readers[operator].iter().map(move |reader| (reader.operator as usize, output));
        read.chain(readers)
    }
}

/// When the resources of servers and network are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Resources {
    /// For each server, the end of its last computation.
    computed: Vec<Time>,
    /// For each server, the end of the last reduction among its accelerators.
    inside: Vec<Time>,
    /// For each link, the end of its last transfer.
    transferred: Vec<Time>,
    /// For each link, when it has done all its work.
    worked: Vec<Time>,
    /// The end of the last all-reduce of groups, latency included.
    reduced: Time,
}

/// Results of the sweep.
#[derive(Clone, Debug, Default)]
struct Sweep {
    /// For each operator, when each of its parts ends forward and backward.
    forward: Vec<Vec<Time>>,
    backward: Vec<Vec<Time>>,
    /// The resources before every [`INTERVAL`]-th operator of the sweep: first forward, then backward.
    saved: Vec<Resources>,
    /// Time of the step.
    total: Time,
}

/// What an operator reads of one of its inputs.
#[derive(Clone, Debug)]
struct Edge {
    pieces: Rc<PieceMap>,
    /// Whether every part reads the part of the same number, on the same server, so that nothing is sent.
    local: bool,
}

/// The maps of pieces so far.
type PieceMaps = BTreeMap<PieceMapKey, KnownPieceMap>;

/// What a map of pieces depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PieceMapKey {
    source: Split,
    reader: Split,
    reads: Reads,
}

/// A map of pieces, and whether it is one to one.
#[derive(Clone, Debug)]
struct KnownPieceMap {
    pieces: Rc<PieceMap>,
    one_to_one: bool,
}

/// An operator before a proposal.
#[derive(Debug)]
struct Replaced {
    operator: usize,
    placed: Placed,
    reductions: Vec<Option<Rc<GroupLoad>>>,
}

/// Evaluates strategies of a model on a network. Holds a strategy, and proposals to change it.
#[derive(Debug)]
pub struct StepTimer<'a> {
    model: &'a Model,
    network: Arc<RoutedLinks>,
    loads: Loads,
    strategy: Strategy,
    /// For each operator and each of its inputs, which part reads what.
    edges: Vec<Vec<Edge>>,
    /// For each operator, the loads of its reductions: one for each part of the parameters, if several servers have it.
    reductions: Vec<Vec<Option<Rc<GroupLoad>>>>,
    piece_maps: PieceMaps,
    current: Sweep,
    trial: Sweep,
    /// The operators that the last proposal replaced, and their reductions; and the first operator of its sweep.
    replaced: Vec<Replaced>,
    first: usize,
    /// Operators that a rejected proposal had replaced.
    stale: Vec<usize>,
}

impl<'a> StepTimer<'a> {
    /// A timer that holds `strategy`, which fits the model and the network.
    pub fn new(model: &'a Model, network: Arc<RoutedLinks>, strategy: Strategy) -> Self {
        let operators = model.operators();
        let empty = Sweep {
            forward: vec![Vec::new(); operators],
            backward: vec![Vec::new(); operators],
            saved: vec![Resources::default(); (2 * operators).div_ceil(INTERVAL)],
            total: Time::ZERO,
        };
        let mut timer = Self {
            model,
            network,
            loads: Loads::default(),
            strategy,
            edges: vec![Vec::new(); operators],
            piece_maps: PieceMaps::new(),
            reductions: vec![Vec::new(); operators],
            current: empty.clone(),
            trial: empty,
            replaced: Vec::new(),
            first: 0,
            stale: Vec::new(),
        };
        for operator in 0..operators {
            timer.reductions[operator] = timer.reductions_of(operator);
            timer.edges[operator] = timer.edges_of(operator);
        }
        timer.sweep();
        timer.accept();
        timer
    }

    /// The network.
    pub fn network(&self) -> &Arc<RoutedLinks> {
        &self.network
    }

    /// The strategy that the timer holds.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The time of a step under the strategy that the timer holds.
    pub fn time(&self) -> Time {
        self.current.total
    }

    /// The time of a step if these operators were placed so. Each occurs once. Follow with [`Self::accept`] or
    /// [`Self::reject`].
    pub fn propose(&mut self, changes: impl IntoIterator<Item = (usize, Placed)>) -> Time {
        debug_assert!(self.replaced.is_empty());
        self.first = self.model.operators();
        for (operator, placed) in changes {
            let placed = std::mem::replace(&mut self.strategy.placed[operator], placed);
            let reductions = self.reductions_of(operator);
            let reductions = std::mem::replace(&mut self.reductions[operator], reductions);
            self.replaced.push(Replaced { operator, placed, reductions });
            self.first = self.first.min(operator);
        }
        self.renew_edges();
        self.sweep();
        self.trial.total
    }

    /// What the last proposal replaces, until it is accepted or rejected.
    pub fn replaced(&self) -> impl Iterator<Item = (usize, &Placed)> {
        self.replaced.iter().map(|old| (old.operator, &old.placed))
    }

    /// Makes the last proposal the strategy that the timer holds.
    pub fn accept(&mut self) {
        self.replaced.clear();
        let operators = self.model.operators();
        for operator in 0..operators {
            if operator >= self.first {
                std::mem::swap(&mut self.current.forward[operator], &mut self.trial.forward[operator]);
            }
            std::mem::swap(&mut self.current.backward[operator], &mut self.trial.backward[operator]);
        }
        for at in self.first / INTERVAL + 1..self.current.saved.len() {
            std::mem::swap(&mut self.current.saved[at], &mut self.trial.saved[at]);
        }
        self.current.total = self.trial.total;
    }

    /// Forgets the last proposal.
    pub fn reject(&mut self) {
        for Replaced { operator, placed, reductions } in self.replaced.drain(..).rev() {
            self.strategy.placed[operator] = placed;
            self.reductions[operator] = reductions;
            self.stale.push(operator);
        }
        self.renew_edges();
    }

    /// Recomputes the edges of replaced operators and of their readers.
    fn renew_edges(&mut self) {
        let mut stale = std::mem::take(&mut self.stale);
        stale.extend(self.replaced.iter().map(|old| old.operator));
        let readers: Vec<usize> = stale
            .iter()
            .flat_map(|&at| &self.model.readers[at])
            .map(|reader| reader.operator as usize)
            .collect();
        stale.extend(readers);
        stale.sort_unstable();
        stale.dedup();
        for operator in stale.drain(..) {
            self.edges[operator] = self.edges_of(operator);
        }
        self.stale = stale;
    }

    fn edges_of(&mut self, operator: usize) -> Vec<Edge> {
        let graph = &self.model.graph;
        let reads = graph.operators[operator].reads;
        let reader = self.strategy.split(graph, operator);
        let edge = |&input: &u32| {
            let source = self.strategy.split(graph, input as usize);
            let new = || {
                let pieces = PieceMap::new(source, reader, reads);
                let one_to_one = pieces.is_one_to_one();
                KnownPieceMap { pieces: Rc::new(pieces), one_to_one }
            };
            let key = PieceMapKey { source, reader, reads };
            let KnownPieceMap { pieces, one_to_one } = self.piece_maps.entry(key).or_insert_with(new);
            let placed = &self.strategy.placed;
            let local = *one_to_one && placed[input as usize].servers == placed[operator].servers;
            Edge { pieces: Rc::clone(pieces), local }
        };
        graph.operators[operator].inputs.iter().map(edge).collect()
    }

    fn reductions_of(&mut self, operator: usize) -> Vec<Option<Rc<GroupLoad>>> {
        let graph = &self.model.graph;
        if graph.operators[operator].parameters.0 == 0 {
            return Vec::new();
        }
        let groups = self.strategy.groups(graph, operator);
        let load = |mut members: Vec<u32>| {
            members.sort_unstable();
            (members.len() > 1).then(|| self.loads.of(&self.network, members))
        };
        groups.into_iter().map(load).collect()
    }

    /// Sweeps from the saved state before the first changed operator to the end.
    fn sweep(&mut self) {
        let operators = self.model.operators();
        let start = self.first / INTERVAL;
        let mut resources = if start == 0 {
            Resources {
                computed: vec![Time::ZERO; self.network.servers() as usize],
                inside: vec![Time::ZERO; self.network.servers() as usize],
                transferred: vec![Time::ZERO; self.network.links()],
                worked: vec![Time::ZERO; self.network.links()],
                reduced: Time::ZERO,
            }
        } else {
            self.current.saved[start].clone()
        };
        for at in start * INTERVAL..2 * operators {
            // Up to the first change, the saved states stay.
            if at > self.first && at.is_multiple_of(INTERVAL) {
                self.trial.saved[at / INTERVAL].clone_from(&resources);
            }
            if at < operators {
                self.forward(at, &mut resources);
            } else {
                self.backward(2 * operators - 1 - at, &mut resources);
            }
        }
        let computed = resources.computed.iter().copied().max().unwrap_or_default();
        let worked = resources.worked.iter().copied().max().unwrap_or_default();
        self.trial.total = computed.max(worked).max(resources.reduced);
    }

    fn forward(&mut self, operator: usize, resources: &mut Resources) {
        let (model, network) = (self.model, &*self.network);
        let graph = &model.graph;
        let placed = &self.strategy.placed[operator];
        let time = model.times[operator][placed.choice as usize].forward;
        let mut ends = std::mem::take(&mut self.trial.forward[operator]);
        ends.clear();
        ends.resize(placed.servers.len(), Time::ZERO);
        for (&input, edge) in graph.operators[operator].inputs.iter().zip(&self.edges[operator]) {
            let input = input as usize;
            // Operators before the first change ended as before.
            let sources = if input < self.first { &self.current } else { &self.trial };
            if edge.local {
                latest(&mut ends, &sources.forward[input]);
                continue;
            }
            let from = &self.strategy.placed[input].servers;
            let mut sender = Sender::new(network, resources);
            for piece in edge.pieces.pieces(graph.operators[input].output, graph.samples) {
                let (source_part, reader_part) = (piece.source as usize, piece.reader as usize);
                let (source, reader) = (from[source_part], placed.servers[reader_part]);
                let ready = sources.forward[input][source_part];
                let arrived = sender.send(source, reader, ready, Bytes(piece.bytes));
                ends[reader_part] = ends[reader_part].max(arrived);
            }
        }
        for (end, &server) in ends.iter_mut().zip(&placed.servers) {
            let free = &mut resources.computed[server as usize];
            *free = (*end).max(*free).saturating_add(time);
            *end = *free;
        }
        self.trial.forward[operator] = ends;
    }

    fn backward(&mut self, operator: usize, resources: &mut Resources) {
        let (model, network) = (self.model, &*self.network);
        let placed = &self.strategy.placed[operator];
        let time = model.times[operator][placed.choice as usize].backward;
        let mut ends = std::mem::take(&mut self.trial.backward[operator]);
        let forward = if operator < self.first { &self.current } else { &self.trial };
        ends.clone_from(&forward.forward[operator]);
        for &Reader { operator: reader, input } in &model.readers[operator] {
            let (reader, edge) = (reader as usize, &self.edges[reader as usize][input as usize]);
            if edge.local {
                latest(&mut ends, &self.trial.backward[reader]);
                continue;
            }
            let from = &self.strategy.placed[reader].servers;
            let mut sender = Sender::new(network, resources);
            for piece in edge.pieces.pieces(model.graph.operators[operator].output, model.graph.samples) {
                let (source_part, reader_part) = (piece.source as usize, piece.reader as usize);
                let (from, to) = (from[reader_part], placed.servers[source_part]);
                let ready = self.trial.backward[reader][reader_part];
                let arrived = sender.send(from, to, ready, Bytes(piece.bytes));
                ends[source_part] = ends[source_part].max(arrived);
            }
        }
        for (end, &server) in ends.iter_mut().zip(&placed.servers) {
            let free = &mut resources.computed[server as usize];
            *free = (*end).max(*free).saturating_add(time);
            *end = *free;
        }
        self.reduce(operator, &ends, resources);
        self.trial.backward[operator] = ends;
    }

    /// Reduces the gradients of an operator, whose parts are computed at `ends`.
    fn reduce(&self, operator: usize, ends: &[Time], resources: &mut Resources) {
        let slices = &self.reductions[operator];
        let choice = self.strategy.placed[operator].choice as usize;
        let Gradient { bytes, inside } = self.model.gradients[operator][choice];
        for (slice, load) in slices.iter().enumerate() {
            let placed = &self.strategy.placed[operator].servers;
            let mut ready = Time::ZERO;
            for (end, &server) in ends.iter().zip(placed).skip(slice).step_by(slices.len()) {
                // A server does one such reduction at a time.
                let busy = &mut resources.inside[server as usize];
                if !inside.is_zero() {
                    *busy = (*end).max(*busy).saturating_add(inside);
                }
                ready = ready.max(if inside.is_zero() { *end } else { *busy });
            }
            resources.reduced = resources.reduced.max(ready);
            let Some(load) = load else { continue };
            let mut last = ready;
            for run in &load.runs {
                let time = run.per_byte.time(bytes);
                for worked in &mut resources.worked[run.links.clone()] {
                    *worked = (*worked).max(ready).saturating_add(time);
                    last = last.max(*worked);
                }
            }
            resources.reduced = resources
                .reduced
                .max(last.saturating_add(load.latency).saturating_add(load.fill.time(bytes)));
        }
    }
}

/// Raises each time to that of another one.
fn latest(times: &mut [Time], others: &[Time]) {
    for (time, other) in times.iter_mut().zip(others) {
        *time = (*time).max(*other);
    }
}

/// Sends pieces, most of which have the same size and pass links of the same rate.
struct Sender<'a> {
    network: &'a RoutedLinks,
    resources: &'a mut Resources,
    last: Sent,
}

/// How long a piece occupies a link.
#[derive(Clone, Copy, Default)]
struct Sent {
    /// The link's time per byte.
    per_byte: PerByte,
    bytes: Bytes,
    time: Time,
}

impl<'a> Sender<'a> {
    fn new(network: &'a RoutedLinks, resources: &'a mut Resources) -> Self {
        Self { network, resources, last: Sent::default() }
    }

    /// Sends bytes that are ready at a time; returns when the last one has arrived.
    #[inline]
    fn send(&mut self, from: u32, to: u32, ready: Time, bytes: Bytes) -> Time {
        let (mut head, mut tail) = (ready, ready);
        if from == to {
            return ready;
        }
        for &link in self.network.route(from, to) {
            let (per_byte, latency) = self.network.link(link);
            if (per_byte, bytes) != (self.last.per_byte, self.last.bytes) {
                self.last = Sent { per_byte, bytes, time: per_byte.time(bytes) };
            }
            let work = self.last.time;
            let transferred = &mut self.resources.transferred[link as usize];
            let start = head.max(*transferred);
            *transferred = start.saturating_add(work);
            let worked = &mut self.resources.worked[link as usize];
            *worked = (*worked).max(start).saturating_add(work);
            head = head.saturating_add(latency);
            tail = tail.max(start.saturating_add(work)).saturating_add(latency);
        }
        tail
    }
}
