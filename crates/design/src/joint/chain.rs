//! One chain of the search: it alternates between proposals of strategies and choices of a topology.

use super::baselines::{Descended, descend};
use super::cluster::{Cluster, Planned};
use super::found::{CHECK_INTERVAL, Found, Improvement, SearchControl, stop};
use super::memory::{Memory, fitting};
use super::moves::{alternating, data_parallel, draw};
use super::network::RoutedLinks;
use super::step::{Model, StepTimer};
use crate::topology::Topology;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use syncline_diagnostics::Result;
use syncline_units::Time;
use syncline_workload::operators::{Placed, Strategy};

/// Settings of the search by Markov chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainSettings {
    /// Proposals of each chain.
    pub proposals: u32,
    /// Number of chains, each with its own random numbers.
    pub chains: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// A proposal that makes the step longer by this is accepted with probability 1/e. If absent, the temperature falls
    /// geometrically from [`HOT`] to [`COLD`] times the first step, so that it suits steps of any length.
    #[serde(default)]
    pub temperature: Option<Time>,
    /// Proposals without an improvement after which a new topology is chosen.
    pub patience: u32,
    /// Maximum number of times that one chain chooses a topology; if absent, unlimited.
    #[serde(default)]
    pub rounds: Option<u32>,
}

/// First temperature of a chain, as a fraction of the step from which it starts.
pub const HOT: f64 = 0.1;
/// The same for a chain that starts from what the greedy search finds.
pub const WARM: f64 = 0.005;
/// Last temperature of a chain, as a fraction of the step from which it starts.
pub const COLD: f64 = 0.0005;

impl Default for ChainSettings {
    /// TopoOpt's 50 proposals (topoopt2022 3.2), and a temperature that falls. FlexFlow's is 1 ms throughout.
    fn default() -> Self {
        Self { proposals: 4000, chains: 2, seed: 0, temperature: None, patience: 50, rounds: None }
    }
}

/// A Markov chain of strategies, and the topologies for them.
pub(super) struct Chain<'a> {
    model: &'a Model,
    cluster: &'a Cluster,
    settings: ChainSettings,
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
    /// The chain with this number, which starts from `first`.
    pub(super) fn new(
        model: &'a Model,
        cluster: &'a Cluster,
        settings: ChainSettings,
        chain: u32,
        first: Strategy,
    ) -> Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
        rng.set_stream(u64::from(chain));
        let Planned { timer, topology, tried } = cluster.step(model, &first)?;
        let found = Found::start(first, topology.clone(), timer.time(), tried);
        let memory = Memory::new(model, timer.strategy(), cluster.servers());
        Ok(Self { model, cluster, settings, rng, timer, topology, memory, found, rounds: 0, hot: HOT })
    }

    /// Improves the strategy operator by operator, with at most as many proposals as the chain has; then chooses a topology
    /// for it.
    pub(super) fn descend(&mut self, control: SearchControl<'_>) -> Result<()> {
        self.hot = WARM;
        let most = u64::from(self.settings.proposals);
        let Descended { proposals, accepted } =
            descend(self.model, &mut self.timer, &mut self.memory, most, control, |_| {});
        self.found.proposals += proposals;
        self.found.accepted += accepted;
        self.note(0);
        self.choose_topology(0)
    }

    /// Goes to data parallelism on fewer servers, or to operators on alternating servers, if that makes the step shorter.
    pub(super) fn narrow(&mut self, control: SearchControl<'_>) -> Result<()> {
        if self.settings.rounds == Some(0) {
            return Ok(());
        }
        let servers = self.cluster.servers();
        let widths =
            std::iter::successors(Some(servers / 2), |width| Some(width / 2)).take_while(|&width| width > 0);
        let model = self.model;
        let narrower = |width| [data_parallel(model, servers, width), alternating(model, servers, width)];
        for strategy in widths.flat_map(narrower) {
            if control.stopped() {
                return Ok(());
            }
            let Ok(strategy) = fitting(model, strategy, servers) else { continue };
            let Planned { timer, topology, tried } = self.cluster.step(model, &strategy)?;
            self.found.topologies += tried;
            if timer.time() < self.timer.time() {
                (self.timer, self.topology) = (timer, topology);
                self.memory = Memory::new(self.model, self.timer.strategy(), servers);
                self.note(0);
            }
        }
        Ok(())
    }

    /// Makes all proposals of the chain, and counts them in `done`.
    pub(super) fn run(mut self, control: SearchControl<'_>, done: &AtomicU64) -> Result<Found> {
        let servers = self.cluster.servers();
        // How often a chain returns to its best strategy.
        let period = (self.settings.proposals / 100).clamp(1, 1000) * 10;
        let mut idle = 0;
        for number in 1..=self.settings.proposals {
            if number.is_multiple_of(CHECK_INTERVAL) {
                let made = u64::from(CHECK_INTERVAL);
                (control.progress)(done.fetch_add(made, Ordering::Relaxed) + made);
                if control.stopped() {
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
            Some(last) if last.proposals == number => last.time = time,
            _ => self.found.trace.push(Improvement { proposals: number, time }),
        }
        true
    }

    /// Chooses a topology for the present strategy, and keeps it if the step is not longer.
    fn choose_topology(&mut self, number: u32) -> Result<()> {
        if matches!(self.cluster, Cluster::Fixed(_)) || self.settings.rounds == Some(self.rounds) {
            return Ok(());
        }
        self.rounds += 1;
        let Planned { timer, topology, tried } = self.cluster.step(self.model, self.timer.strategy())?;
        self.found.topologies += tried;
        if topology == self.topology {
            return Ok(());
        }
        if timer.time() <= self.timer.time() {
            (self.timer, self.topology) = (timer, topology);
            self.note(number);
        }
        Ok(())
    }

    /// Returns to the best strategy and topology so far.
    fn reset(&mut self) -> Result<()> {
        let network = match (&self.cluster, &self.found.topology) {
            (Cluster::Direct(links), Some(topology)) if self.found.topology != self.topology => {
                Arc::new(RoutedLinks::direct(topology, links.rate, links.latency))
            }
            _ => Arc::clone(self.timer.network()),
        };
        self.timer = StepTimer::new(self.model, network, self.found.strategy.clone());
        self.topology.clone_from(&self.found.topology);
        self.memory = Memory::new(self.model, self.timer.strategy(), self.cluster.servers());
        Ok(())
    }
}
