//! The searches: alternating optimisation by Markov chains, and two deterministic baselines.

use super::moves::{alternating, data_parallel, draw, place, starts};
use super::network::Network;
use super::step::{Model, StepTimer};
use crate::topology::{Demand, Selection, Topology, find};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::{Rate, Time};
use syncline_workload::operators::{Placed, Strategy, pieces};

/// The network that a search plans for.
#[derive(Clone, Debug)]
pub enum Cluster {
    /// Servers that are joined by direct links, which the search chooses.
    Direct {
        /// Number of servers.
        servers: u32,
        /// Interfaces of a server.
        degree: u32,
        /// Rate of an interface.
        rate: Rate,
        /// Latency of a link.
        latency: Time,
        /// How rings are selected.
        selection: Selection,
    },
    /// A given network.
    Fixed(Arc<Network>),
}

impl Cluster {
    /// Number of servers.
    pub fn servers(&self) -> u32 {
        match self {
            Self::Direct { servers, .. } => *servers,
            Self::Fixed(network) => network.servers(),
        }
    }

    /// The network for a demand, and its topology if it was chosen.
    ///
    /// # Errors
    /// As [`find`].
    pub(super) fn network(
        &self,
        demand: impl FnOnce() -> Demand,
    ) -> Result<(Arc<Network>, Option<Topology>)> {
        match self {
            &Self::Direct { degree, rate, latency, selection, .. } => {
                let topology = find(&demand(), degree, selection)?;
                Ok((Arc::new(Network::direct(&topology, rate, latency)), Some(topology)))
            }
            Self::Fixed(network) => Ok((Arc::clone(network), None)),
        }
    }
}

/// How a search proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Proposals of each chain.
    pub proposals: u32,
    /// Number of chains, each with its own random numbers.
    pub chains: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// A proposal that makes the step longer by this is accepted with probability 1/e. If absent, it falls geometrically
    /// from [`HOT`] to [`COLD`] times the first step, so that it suits steps of any length.
    pub temperature: Option<Time>,
    /// Proposals without an improvement after which a new topology is chosen.
    pub patience: u32,
    /// Maximum number of times that one chain chooses a topology.
    pub rounds: u32,
}

/// First temperature of a chain, as a fraction of the step from which it starts.
pub const HOT: f64 = 0.1;
/// The same for a chain that starts from what the greedy search finds.
pub const WARM: f64 = 0.005;
/// Last temperature of a chain, as a fraction of the step from which it starts.
pub const COLD: f64 = 0.0005;

impl Default for Settings {
    /// TopoOpt's 50 proposals (topoopt2022 3.2), and a temperature that falls. FlexFlow's is 1 ms throughout.
    fn default() -> Self {
        Self { proposals: 4000, chains: 2, seed: 0, temperature: None, patience: 50, rounds: u32::MAX }
    }
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best strategy.
    pub strategy: Strategy,
    /// The topology for it; `None` on a given fabric.
    pub topology: Option<Topology>,
    /// Its time of a step.
    pub time: Time,
    /// The time of data parallelism, from which the search starts, on a network for it.
    pub start: Time,
    /// The best time so far of the chain that found it, whenever it improved, with the number of proposals before it.
    pub trace: Vec<(u32, Time)>,
    /// Proposals over all chains.
    pub proposals: u64,
    /// Proposals that were accepted.
    pub accepted: u64,
    /// Topologies that were tried.
    pub topologies: u64,
}

/// What a strategy sends in a step.
pub fn demand(model: &Model, strategy: &Strategy, servers: u32) -> Demand {
    let graph = &model.graph;
    let mut demand = Demand::new(servers);
    for (members, bytes) in strategy.reductions(graph) {
        demand.all_reduce(members, bytes);
    }
    for (reader, operator) in graph.operators.iter().enumerate() {
        let own = operator.reads == syncline_workload::operators::Reads::Own;
        for &input in &operator.inputs {
            let input = input as usize;
            let (from, to) = (&strategy.placed[input].servers, &strategy.placed[reader].servers);
            let splits = (strategy.split(graph, input), strategy.split(graph, reader));
            for piece in pieces(splits.0, splits.1, graph.operators[input].output, graph.samples, own) {
                let (source, reader) = (from[piece.source as usize], to[piece.reader as usize]);
                demand.transfers.add(source, reader, piece.bytes);
                demand.transfers.add(reader, source, piece.bytes);
            }
        }
    }
    demand
}

/// How the caller follows a search.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Set to stop the search early; it then fails with `LimitReached`.
    pub cancel: &'a AtomicBool,
    /// Called from time to time with the number of proposals so far, over all chains.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Most threads to use.
    pub threads: usize,
}

/// Proposals between two looks at [`Control`].
const LOOK: u32 = 64;

/// Searches for the strategy, and on direct links the topology, with the shortest step.
///
/// A chain starts from data parallelism. The first, third and so on take the best of data parallelism on fewer servers and
/// of operators on alternating servers, improve that as [`greedy`] does, and begin colder.
///
/// Each chain alternates (topoopt2022 3.2): it changes the strategy on its present topology by FlexFlow's moves, and chooses
/// the topology anew when a proposal is the best so far, or after [`Settings::patience`] proposals without one. The new
/// topology is kept if the step is not longer. Chains share nothing, so the result does not depend on the number of
/// threads.
///
/// # Errors
/// A degree that is not possible; servers whose memory is too small for any strategy that was found; `LimitReached` if
/// `control` stops the search.
pub fn search(model: &Model, cluster: &Cluster, settings: Settings, control: Control<'_>) -> Result<Found> {
    let servers = cluster.servers();
    let first = fitting(model, data_parallel(model, servers, servers), servers)?;
    let chains: Vec<u32> = (0..settings.chains.max(1)).collect();
    let done = AtomicU64::new(0);
    let run = |chain: u32| {
        let mut own = Chain::new(model, cluster, settings, chain, first.clone())?;
        if chain.is_multiple_of(2) {
            own.narrow(control)?;
            own.descend(control)?;
        }
        own.run(control, &done)
    };
    let results: Vec<Result<Found>> = if control.threads <= 1 {
        chains.into_iter().map(run).collect()
    } else {
        let next = AtomicU64::new(0);
        let mut results: Vec<(u32, Result<Found>)> = std::thread::scope(|scope| {
            let worker = || {
                let mut own = Vec::new();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(&chain) = chains.get(at) else { return own };
                    own.push((chain, run(chain)));
                }
            };
            let workers: Vec<_> =
                (0..control.threads.min(chains.len())).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("a chain does not panic")).collect()
        });
        results.sort_by_key(|&(chain, _)| chain);
        results.into_iter().map(|(_, result)| result).collect()
    };
    let mut best: Option<Found> = None;
    let (mut proposals, mut accepted, mut topologies) = (0, 0, 0);
    for found in results {
        let found = found?;
        proposals += found.proposals;
        accepted += found.accepted;
        topologies += found.topologies;
        if best.as_ref().is_none_or(|best| found.time < best.time) {
            best = Some(found);
        }
    }
    let best = best.expect("there is a chain");
    Ok(Found { proposals, accepted, topologies, ..best })
}

/// The error of a search that was stopped.
fn stop() -> Diagnostics {
    Diagnostic::error(Code::LimitReached, "the search was stopped").into()
}

/// A Markov chain of strategies, and the topologies for them.
struct Chain<'a> {
    model: &'a Model,
    cluster: &'a Cluster,
    settings: Settings,
    rng: ChaCha8Rng,
    timer: StepTimer<'a>,
    topology: Option<Topology>,
    memory: Memory<'a>,
    found: Found,
    rounds: u32,
    /// First temperature, as a fraction of the step of the start.
    hot: f64,
}

impl<'a> Chain<'a> {
    fn new(
        model: &'a Model,
        cluster: &'a Cluster,
        settings: Settings,
        chain: u32,
        first: Strategy,
    ) -> Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
        rng.set_stream(u64::from(chain));
        let (network, topology) = cluster.network(|| demand(model, &first, cluster.servers()))?;
        let timer = StepTimer::new(model, network, first.clone());
        let start = timer.time();
        let found = Found {
            strategy: first,
            topology: topology.clone(),
            time: start,
            start,
            trace: vec![(0, start)],
            proposals: 0,
            accepted: 0,
            topologies: u64::from(topology.is_some()),
        };
        let memory = Memory::new(model, timer.strategy(), cluster.servers());
        Ok(Self { model, cluster, settings, rng, timer, topology, memory, found, rounds: 0, hot: HOT })
    }

    /// Improves the strategy operator by operator, with at most as many proposals as the chain has; then chooses a topology
    /// for it.
    fn descend(&mut self, control: Control<'_>) -> Result<()> {
        self.hot = WARM;
        let most = u64::from(self.settings.proposals);
        let stopped = || control.cancel.load(Ordering::Relaxed);
        let (proposals, accepted) = descend(self.model, &mut self.timer, most, stopped, |_| {});
        self.found.proposals += proposals;
        self.found.accepted += accepted;
        self.memory = Memory::new(self.model, self.timer.strategy(), self.cluster.servers());
        self.note(0);
        self.choose_topology(0)
    }

    /// Goes to data parallelism on fewer servers, or to operators on alternating servers, if that makes the step shorter.
    fn narrow(&mut self, control: Control<'_>) -> Result<()> {
        if self.settings.rounds == 0 {
            return Ok(());
        }
        let servers = self.cluster.servers();
        let widths =
            std::iter::successors(Some(servers / 2), |width| Some(width / 2)).take_while(|&width| width > 0);
        let model = self.model;
        let narrower = |width| [data_parallel(model, servers, width), alternating(model, servers, width)];
        for strategy in widths.flat_map(narrower) {
            if control.cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.found.topologies += u64::from(self.topology.is_some());
            let Ok(strategy) = fitting(model, strategy, servers) else { continue };
            let (network, topology) = self.cluster.network(|| demand(self.model, &strategy, servers))?;
            let timer = StepTimer::new(self.model, network, strategy);
            if timer.time() < self.timer.time() {
                (self.timer, self.topology) = (timer, topology);
                self.memory = Memory::new(self.model, self.timer.strategy(), servers);
                self.note(0);
            }
        }
        Ok(())
    }

    fn run(mut self, control: Control<'_>, done: &AtomicU64) -> Result<Found> {
        let servers = self.cluster.servers();
        // How often a chain returns to its best strategy.
        let period = (self.settings.proposals / 100).clamp(1, 1000) * 10;
        let mut idle = 0;
        for number in 1..=self.settings.proposals {
            if number.is_multiple_of(LOOK) {
                (control.progress)(done.fetch_add(u64::from(LOOK), Ordering::Relaxed) + u64::from(LOOK));
                if control.cancel.load(Ordering::Relaxed) {
                    return Err(stop());
                }
            }
            self.found.proposals += 1;
            let moved = draw(self.model, self.timer.strategy(), servers, &mut self.rng);
            let improved = self.consider(moved, number);
            idle = if improved { 0 } else { idle + 1 };
            if improved || idle % self.settings.patience.max(1) == 0 && idle > 0 {
                self.choose_topology(number)?;
            }
            if number % period == 0 && self.timer.strategy() != &self.found.strategy {
                self.reset()?;
            }
        }
        Ok(self.found)
    }

    /// Accepts or rejects a move; returns whether it is the best so far.
    fn consider(&mut self, moved: Vec<(usize, Placed)>, number: u32) -> bool {
        if !self.memory.fits(self.timer.strategy(), &moved) {
            return false;
        }
        let before = self.timer.time();
        let changes = moved.clone();
        let after = self.timer.propose(moved);
        let worse = after.0.saturating_sub(before.0) as f64;
        let chance = libm::exp(-worse / self.temperature(number));
        if after > before && !self.rng.random_bool(chance.clamp(0.0, 1.0)) {
            self.timer.reject();
            return false;
        }
        self.memory.change(self.timer.replaced(), &changes);
        self.timer.accept();
        self.found.accepted += 1;
        self.note(number)
    }

    /// The temperature of a proposal, in picoseconds. Functions of `libm` give the same result on every machine.
    fn temperature(&self, number: u32) -> f64 {
        match self.settings.temperature {
            Some(time) => time.0.max(1) as f64,
            None => {
                let progress = f64::from(number) / f64::from(self.settings.proposals.max(1));
                (self.found.start.0 as f64 * self.hot * libm::pow(COLD / self.hot, progress)).max(1.0)
            }
        }
    }

    /// Notes the present strategy if it is the best so far.
    fn note(&mut self, number: u32) -> bool {
        let time = self.timer.time();
        if time >= self.found.time {
            return false;
        }
        self.found.time = time;
        self.found.strategy = self.timer.strategy().clone();
        self.found.topology.clone_from(&self.topology);
        match self.found.trace.last_mut() {
            Some(last) if last.0 == number => last.1 = time,
            _ => self.found.trace.push((number, time)),
        }
        true
    }

    /// The other plane: a topology for the present strategy.
    fn choose_topology(&mut self, number: u32) -> Result<()> {
        if matches!(self.cluster, Cluster::Fixed(_)) || self.rounds == self.settings.rounds {
            return Ok(());
        }
        self.rounds += 1;
        self.found.topologies += 1;
        let strategy = self.timer.strategy();
        let (network, topology) =
            self.cluster.network(|| demand(self.model, strategy, self.cluster.servers()))?;
        if topology == self.topology {
            return Ok(());
        }
        let timer = StepTimer::new(self.model, network, strategy.clone());
        if timer.time() <= self.timer.time() {
            (self.timer, self.topology) = (timer, topology);
            self.note(number);
        }
        Ok(())
    }

    /// Returns to the best strategy and topology so far.
    fn reset(&mut self) -> Result<()> {
        let network = match (&self.cluster, &self.found.topology) {
            (&&Cluster::Direct { rate, latency, .. }, Some(topology))
                if self.found.topology != self.topology =>
            {
                Arc::new(Network::direct(topology, rate, latency))
            }
            _ => Arc::clone(self.timer.network()),
        };
        self.timer = StepTimer::new(self.model, network, self.found.strategy.clone());
        self.topology.clone_from(&self.found.topology);
        self.memory = Memory::new(self.model, self.timer.strategy(), self.cluster.servers());
        Ok(())
    }
}

/// The memory of servers under a strategy that changes.
struct Memory<'a> {
    model: &'a Model,
    limit: Option<u64>,
    used: Vec<u64>,
}

impl<'a> Memory<'a> {
    fn new(model: &'a Model, strategy: &Strategy, servers: u32) -> Self {
        let limit = model.graph.server.memory.map(|limit| limit.0);
        let used = strategy.memory(&model.graph, servers).into_iter().map(|bytes| bytes.0).collect();
        Self { model, limit, used }
    }

    fn part(&self, operator: usize, placed: &Placed) -> u64 {
        self.model.graph.operators[operator].choices[placed.choice as usize].memory.0
    }

    /// Whether the strategy fits with these changes.
    fn fits(&self, strategy: &Strategy, changes: &[(usize, Placed)]) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut used = self.used.clone();
        for (operator, _) in changes {
            let old = &strategy.placed[*operator];
            old.servers.iter().for_each(|&server| used[server as usize] -= self.part(*operator, old));
        }
        changes.iter().all(|(operator, placed)| {
            placed.servers.iter().all(|&server| {
                used[server as usize] = used[server as usize].saturating_add(self.part(*operator, placed));
                used[server as usize] <= limit
            })
        })
    }

    /// Replaces what operators need.
    fn change<'b>(&mut self, old: impl Iterator<Item = (usize, &'b Placed)>, new: &[(usize, Placed)]) {
        if self.limit.is_none() {
            return;
        }
        for (operator, placed) in old {
            let part = self.part(operator, placed);
            placed.servers.iter().for_each(|&server| self.used[server as usize] -= part);
        }
        for (operator, placed) in new {
            let part = self.part(*operator, placed);
            placed.servers.iter().for_each(|&server| self.used[server as usize] += part);
        }
    }
}

/// Makes a strategy fit into the memory of servers: operator by operator, those that need most first, takes the division
/// and servers that leave the fullest server emptiest, until it fits.
///
/// # Errors
/// `DoesNotFit` if it does not fit even so.
fn fitting(model: &Model, mut strategy: Strategy, servers: u32) -> Result<Strategy> {
    let graph = &model.graph;
    if strategy.check(graph, servers).is_ok() {
        return Ok(strategy);
    }
    let whole = |at: &usize| {
        let operator = &graph.operators[*at];
        operator.choices.iter().map(|choice| choice.memory.0.saturating_mul(u64::from(choice.parts()))).max()
    };
    let mut order: Vec<usize> = (0..graph.operators.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(whole(at)), *at));
    let mut used = vec![0u64; servers as usize];
    for operator in order {
        let choices = &graph.operators[operator].choices;
        let placements = choices.iter().enumerate().flat_map(|(number, choice)| {
            (0..starts(choice, servers)).map(move |start| (number, place(choice, start, servers)))
        });
        let best = placements.min_by_key(|(number, on)| {
            let most = on
                .iter()
                .map(|&server| used[server as usize].saturating_add(choices[*number].memory.0))
                .max();
            (most, std::cmp::Reverse(choices[*number].samples))
        });
        let Some((choice, on)) = best else { continue };
        on.iter().for_each(|&server| used[server as usize] += choices[choice].memory.0);
        strategy.placed[operator] = Placed { choice: choice as u32, servers: on };
    }
    strategy.check(graph, servers)?;
    Ok(strategy)
}

/// Improves data parallelism on one network operator by operator, each by its best division on the servers of its
/// neighbours, those from server 0, or those with the most free memory, until nothing improves. Deterministic.
///
/// # Errors
/// As [`search`].
pub fn greedy(model: &Model, cluster: &Cluster, control: Control<'_>) -> Result<Found> {
    let servers = cluster.servers();
    let first = fitting(model, data_parallel(model, servers, servers), servers)?;
    let (network, topology) = cluster.network(|| demand(model, &first, servers))?;
    let mut timer = StepTimer::new(model, network, first);
    let start = timer.time();
    let mut trace = vec![(0, start)];
    let stopped = || control.cancel.load(Ordering::Relaxed);
    let (proposals, accepted) =
        descend(model, &mut timer, u64::MAX, stopped, |improved| trace.push(improved));
    if stopped() {
        return Err(stop());
    }
    let (strategy, time) = (timer.strategy().clone(), timer.time());
    Ok(Found { strategy, topology, time, start, trace, proposals, accepted, topologies: 1 })
}

/// Takes the best of [`worth_trying`] for one operator after the other, until nothing improves or `most` proposals are made.
/// Calls `improved` with the number of proposals and the time of each improvement; returns the numbers of proposals, and
/// of those that were accepted.
fn descend(
    model: &Model,
    timer: &mut StepTimer<'_>,
    most: u64,
    stopped: impl Fn() -> bool,
    mut improved: impl FnMut((u32, Time)),
) -> (u64, u64) {
    let servers = timer.network().servers();
    let (mut proposals, mut accepted) = (0, 0);
    loop {
        let before = timer.time();
        for operator in 0..model.graph.operators.len() {
            for placed in worth_trying(model, timer, operator, servers) {
                if proposals == most || stopped() {
                    return (proposals, accepted);
                }
                if model.graph.server.memory.is_some() {
                    let mut tried = timer.strategy().clone();
                    tried.placed[operator] = placed.clone();
                    if tried.check(&model.graph, servers).is_err() {
                        continue;
                    }
                }
                proposals += 1;
                let best = timer.time();
                if timer.propose([(operator, placed)]) < best {
                    timer.accept();
                    accepted += 1;
                    improved((u32::try_from(proposals).unwrap_or(u32::MAX), timer.time()));
                } else {
                    timer.reject();
                }
            }
        }
        if timer.time() == before {
            return (proposals, accepted);
        }
    }
}

/// Divisions of an operator on the servers where its neighbours start, on those from server 0, and on those from the
/// server with the least memory in use.
fn worth_trying(model: &Model, timer: &StepTimer<'_>, operator: usize, servers: u32) -> Vec<Placed> {
    let strategy = timer.strategy();
    let mut from: Vec<u32> =
        model.neighbours(operator).map(|(other, _)| strategy.placed[other].servers[0]).collect();
    let used = strategy.memory(&model.graph, servers);
    let emptiest = (0..servers).min_by_key(|&server| used[server as usize]);
    from.extend([0].into_iter().chain(emptiest));
    from.sort_unstable();
    from.dedup();
    let choices = model.graph.operators[operator].choices.iter().enumerate();
    let placed = choices.flat_map(|(number, choice)| {
        from.iter()
            .map(move |&start| Placed { choice: number as u32, servers: place(choice, start, servers) })
    });
    placed.collect()
}

/// Most strategies that [`exhaustive`] tries.
pub const MOST_STRATEGIES: u64 = 1 << 24;

/// Tries every strategy with placements by [`place`] on one network: that of data parallelism.
///
/// # Errors
/// `BadValue` if there are more than [`MOST_STRATEGIES`]; as [`search`].
pub fn exhaustive(model: &Model, cluster: &Cluster, control: Control<'_>) -> Result<Found> {
    let servers = cluster.servers();
    let of = |operator: &syncline_workload::operators::Operator| -> Vec<Placed> {
        let choices = operator.choices.iter().enumerate();
        let placed = choices.flat_map(|(number, choice)| {
            (0..starts(choice, servers))
                .map(move |start| Placed { choice: number as u32, servers: place(choice, start, servers) })
        });
        placed.collect()
    };
    let all: Vec<Vec<Placed>> = model.graph.operators.iter().map(of).collect();
    let count = all.iter().fold(1u64, |count, placed| count.saturating_mul(placed.len() as u64));
    if count > MOST_STRATEGIES {
        return Err(Diagnostic::error(Code::BadValue, "there are too many strategies to try them all")
            .key("search")
            .found(if count == u64::MAX { "more than 2^64".to_owned() } else { count.to_string() })
            .allowed(format!("at most {MOST_STRATEGIES}"))
            .help("set `search.method: chains`, or use fewer operators or servers")
            .into());
    }
    let first = fitting(model, data_parallel(model, servers, servers), servers)?;
    let (network, topology) = cluster.network(|| demand(model, &first, servers))?;
    let mut timer = StepTimer::new(model, network, first.clone());
    let start = timer.time();
    let mut best = (start, first);
    let mut tried = 0u64;
    let mut number = vec![0; all.len()];
    timer.propose(all.iter().map(|placed| placed[0].clone()).enumerate());
    timer.accept();
    loop {
        if timer.time() < best.0 && timer.strategy().check(&model.graph, servers).is_ok() {
            best = (timer.time(), timer.strategy().clone());
        }
        // The next strategy in order: the last operator changes most often, so that sweeps are short.
        let mut changes = Vec::new();
        for operator in (0..all.len()).rev() {
            number[operator] = (number[operator] + 1) % all[operator].len();
            if all[operator].len() > 1 {
                changes.push((operator, all[operator][number[operator]].clone()));
            }
            if number[operator] != 0 {
                break;
            }
        }
        if number.iter().all(|&at| at == 0) {
            break;
        }
        tried += 1;
        if tried.is_multiple_of(u64::from(LOOK)) {
            (control.progress)(tried);
            if control.cancel.load(Ordering::Relaxed) {
                return Err(stop());
            }
        }
        timer.propose(changes);
        timer.accept();
    }
    let trace = vec![(0, start), (u32::try_from(count).unwrap_or(u32::MAX), best.0)];
    Ok(Found {
        strategy: best.1,
        topology,
        time: best.0,
        start,
        trace,
        proposals: count,
        accepted: 0,
        topologies: 1,
    })
}
