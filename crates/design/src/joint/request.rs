//! A search and its answer as JSON, for callers in other languages.

use super::baselines::{exhaustive, greedy};
use super::chain::ChainSettings;
use super::cluster::{Cluster, DirectLinks, Planned};
use super::demand::demand;
use super::found::{Found, SearchControl};
use super::moves::data_parallel;
use super::network::{RoutedLinks, TREE_CHUNKS};
use super::search::{improve, search};
use super::step::Model;
use crate::topology::{AllReduceLinks, GroupLinks, Links, Transfer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_prepare::{compute, network};
use syncline_scenario::{Compute, Fabric};
use syncline_units::{Bytes, Rate};
use syncline_workload::TaskKind;
use syncline_workload::operators::{OperatorGraph, Strategy, tasks};

/// Slowest links that a search takes: it counts the time of a byte in 64 bits.
const SLOWEST: Rate = Rate(10_000);

/// What to search for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The model and its servers.
    pub graph: OperatorGraph,
    /// What turns work into time.
    pub compute: Compute,
    /// The network.
    pub cluster: ClusterSpec,
    /// How to search.
    pub method: Method,
}

/// The network of a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClusterSpec {
    /// Direct links that the search chooses.
    Direct(DirectLinks),
    /// A fabric, each of whose NPUs is a server.
    Fabric(Box<Fabric>),
}

/// How to search.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Method {
    /// Markov chains.
    Chains(ChainSettings),
    /// Markov chains from strategies that were found on other networks.
    Improve {
        /// How to search; at most one chain from each strategy.
        chains: ChainSettings,
        /// The strategies.
        from: Vec<Strategy>,
    },
    /// Operator by operator.
    Greedy,
    /// All strategies.
    Exhaustive,
    /// No search: the time of this strategy.
    Given(Strategy),
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The strategy, as in a file of operators.
    pub strategy: Strategy,
    /// Seconds of a step.
    pub step_s: f64,
    /// Seconds of a step of the strategy from which the search started.
    pub start_s: f64,
    /// Whether that is data parallelism, because it fits into the memory of servers.
    pub data_parallel_fits: bool,
    /// Improvements of the chain that found it; the first is its start.
    pub trace: Vec<ImprovementAnswer>,
    /// Proposals over all chains.
    pub proposals: u64,
    /// Accepted ones.
    pub accepted: u64,
    /// Topologies that were tried.
    pub topologies: u64,
    /// The topology; `None` on a given fabric.
    pub topology: Option<TopologyAnswer>,
    /// Bytes from server to server outside all-reduces.
    pub transfers: Vec<Transfer>,
    /// The all-reduces of a step among several servers.
    pub reductions: Vec<Reduction>,
    /// Number of chunks into which all-reduces are cut, as the search counts them: more than one if any moves through
    /// trees.
    pub chunks: u32,
    /// Memory that the fullest accelerator needs.
    pub memory: Bytes,
    /// Answers of the other chains, fastest first; their own `runners_up` are empty.
    pub runners_up: Vec<Answer>,
}

/// A time that is the best so far.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ImprovementAnswer {
    /// Proposals before it.
    pub proposals: u32,
    /// Seconds of a step.
    pub step_s: f64,
}

/// An all-reduce of a step; `count` says how often it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reduction {
    /// Name of the group in the simulation.
    pub group: String,
    /// Its servers.
    pub members: Vec<u32>,
    /// Size of one all-reduce.
    pub bytes: Bytes,
    /// How many of this size a step has.
    pub count: u32,
    /// How it uses links.
    pub pattern: AllReduceLinks,
    /// The strides of its rings, or pairs of trees; empty if it has no links of its own.
    pub strides: Vec<u32>,
    /// Sender and receiver of each link, once per ring or tree; all carry the same number of bytes.
    pub links: Vec<(u32, u32)>,
}

impl Reduction {
    fn has_trees(&self) -> bool {
        self.pattern == AllReduceLinks::DoubleBinaryTrees
    }
}

/// A group with links of its own.
#[derive(Clone, Debug, Serialize)]
pub struct GroupAnswer {
    /// The members.
    pub members: Vec<u32>,
    /// How all-reduces use the links.
    pub pattern: AllReduceLinks,
    /// The stride of each ring or pair of trees.
    pub strides: Vec<u32>,
    /// For each stride, its links from sender to receiver.
    pub links: Vec<Vec<(u32, u32)>>,
}

/// A topology.
#[derive(Clone, Debug, Serialize)]
pub struct TopologyAnswer {
    /// The links.
    pub links: Vec<Links>,
    /// Interfaces that serve all-reduces.
    pub ring_degree: u32,
    /// Groups with links of their own.
    pub groups: Vec<GroupAnswer>,
    /// Pairs that were joined for transfers outside all-reduces.
    pub matched: Vec<(u32, u32)>,
    /// Longest route, in links.
    pub diameter: u32,
    /// The servers on each route that transfers, or rings without links of their own, use over more than one link.
    pub routes: Vec<Vec<u32>>,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// `BadValue` if `text` is not a valid request.
    pub fn read(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text).map_err(|error| {
            Diagnostic::error(Code::BadValue, format!("not a request for a search: {error}"))
        })?)
    }

    /// Proposals over all chains; 0 for other methods.
    pub fn proposals(&self) -> u64 {
        match &self.method {
            Method::Chains(settings) => u64::from(settings.proposals) * u64::from(settings.chains),
            Method::Improve { chains, from } => {
                u64::from(chains.proposals) * u64::from(chains.chains).min(from.len() as u64)
            }
            _ => 0,
        }
    }

    /// Searches.
    ///
    /// # Errors
    /// Everything that is wrong with the request, and as [`search`].
    pub fn run(self, control: SearchControl<'_>) -> Result<Answer> {
        let cluster = match self.cluster {
            ClusterSpec::Direct(links) => {
                if links.rate.0 < SLOWEST.0 {
                    return Err(Diagnostic::error(Code::BadValue, "the links are too slow for a search")
                        .key("link")
                        .found(links.rate.to_string())
                        .allowed(format!("at least {SLOWEST}"))
                        .into());
                }
                Cluster::Direct(links)
            }
            ClusterSpec::Fabric(fabric) => {
                Cluster::Fixed(Arc::new(RoutedLinks::of_fabric(&network::fabric(&fabric, 0)?)))
            }
        };
        let servers = cluster.servers();
        if servers == 0 {
            return Err(Diagnostic::error(Code::BadValue, "a job needs a server")
                .key("servers")
                .found("0")
                .into());
        }
        self.graph.check(servers)?;
        let model = Model::new(self.graph, &compute::model(&self.compute)?)?;
        let found = match self.method {
            Method::Chains(settings) => search(&model, &cluster, settings, control)?,
            Method::Improve { chains, from } => improve(&model, &cluster, chains, &from, control)?,
            Method::Greedy => greedy(&model, &cluster, control)?,
            Method::Exhaustive => exhaustive(&model, &cluster, control)?,
            Method::Given(strategy) => given(&model, &cluster, strategy)?,
        };
        answer(&model, servers, found)
    }
}

/// The time of a strategy on a network for it.
fn given(model: &Model, cluster: &Cluster, strategy: Strategy) -> Result<Found> {
    let servers = cluster.servers();
    strategy.check(&model.graph, servers)?;
    let Planned { timer, topology, tried } = cluster.step(model, &strategy)?;
    let time = timer.time();
    Ok(Found::start(strategy, topology, time, tried))
}

fn answer(model: &Model, servers: u32, found: Found) -> Result<Answer> {
    if found.time.0 == u64::MAX {
        return Err(Diagnostic::error(Code::Overflow, "a step takes longer than can be represented")
            .allowed("at most 213 days")
            .help("use faster links or a smaller model")
            .into());
    }
    let demand = demand(model, &found.strategy, servers);
    let reductions = reductions(model, servers, &found)?;
    let memory = found.strategy.memory(&model.graph, servers).into_iter().max().unwrap_or(Bytes(0));
    let topology = found.topology.as_ref().map(|topology| {
        let mut pairs: BTreeSet<(u32, u32)> =
            demand.transfers.iter().map(|Transfer { from, to, .. }| (from, to)).collect();
        for reduction in reductions.iter().filter(|reduction| reduction.strides.is_empty()) {
            let members = &reduction.members;
            pairs.extend((0..members.len()).map(|at| (members[at], members[(at + 1) % members.len()])));
        }
        let routes = pairs.into_iter().map(|(from, to)| topology.route(from, to).to_vec());
        TopologyAnswer {
            links: topology.links.clone(),
            ring_degree: topology.ring_degree,
            groups: {
                let own = topology.groups.iter().filter(|group| !group.strides.is_empty());
                own.map(|group| GroupAnswer {
                    members: group.members.clone(),
                    pattern: group.pattern,
                    strides: group.strides.clone(),
                    links: group.links_by_stride().collect(),
                })
                .collect()
            },
            matched: topology.matched.clone(),
            diameter: topology.diameter(),
            routes: routes.filter(|route| route.len() > 2).collect(),
        }
    });
    Ok(Answer {
        step_s: found.time.as_s(),
        start_s: found.start.as_s(),
        data_parallel_fits: data_parallel(model, servers, servers).check(&model.graph, servers).is_ok(),
        trace: found
            .trace
            .iter()
            .map(|best| ImprovementAnswer { proposals: best.proposals, step_s: best.time.as_s() })
            .collect(),
        proposals: found.proposals,
        accepted: found.accepted,
        topologies: found.topologies,
        topology,
        transfers: demand.transfers.iter().collect(),
        chunks: if reductions.iter().any(Reduction::has_trees) { TREE_CHUNKS } else { 1 },
        reductions,
        memory,
        runners_up: found
            .runners_up
            .into_iter()
            .map(|each| answer(model, servers, each))
            .collect::<Result<_>>()?,
        strategy: found.strategy,
    })
}

/// The all-reduces of a step, as the simulated job has them.
fn reductions(model: &Model, servers: u32, found: &Found) -> Result<Vec<Reduction>> {
    let job = tasks::workload(&model.graph, &found.strategy, servers, 1)?;
    let mut counts = std::collections::BTreeMap::new();
    for (role, bytes) in
        job.classes.iter().flat_map(|graph| &graph.tasks).filter_map(|task| match task.kind {
            TaskKind::Collective { role, bytes, .. } => Some((role, bytes)),
            _ => None,
        })
    {
        *counts.entry((role, bytes)).or_insert(0u32) += 1;
    }
    let reduction = |((role, bytes), count): ((syncline_workload::RoleId, Bytes), u32)| {
        let role = &job.roles[role.index()];
        let members = role.ranks(0);
        let own = found.topology.as_ref().and_then(|topology| topology.group(&members)).cloned();
        let strides = own.as_ref().map_or(Vec::new(), |own| own.strides.clone());
        let used = own.unwrap_or_else(|| GroupLinks::one_ring(members));
        Reduction {
            group: role.name.clone(),
            // Every member has the task.
            count: count / used.members.len() as u32,
            bytes,
            pattern: used.pattern,
            strides,
            links: used.links(),
            members: used.members,
        }
    };
    Ok(counts.into_iter().map(reduction).collect())
}
