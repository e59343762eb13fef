//! Decides how a collective is run: which plan, which order of ranks, how many chunks.

use crate::cut::{Cut, Grain};
use crate::operation::{Announcement, Association, Operation};
use crate::script::{Script, StepAction};
use crate::settings::DEFAULT_WINDOW;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::Algorithm;
use syncline_plan::choice::{self, Candidate, GroupNetwork, Phase, Work};
use syncline_units::{Bytes, CollectiveKind};

/// How one member runs a collective of some size.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The collective.
    pub operation: Operation,
    /// The steps of this member for each chunk.
    pub script: Arc<Script>,
    /// How the vector is cut into chunks.
    pub cut: Cut,
    /// Identifies the plan and the order of ranks.
    pub digest: u64,
    /// The member of each seat.
    ranks: Vec<u32>,
    /// The seat of each member.
    seats: Vec<Option<u32>>,
}

impl Shape {
    /// The member that has each seat: ranks, then hubs.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The seat of a member, if it has one.
    pub(crate) fn seat(&self, rank: u32) -> Option<u32> {
        self.seats.get(rank as usize).copied().flatten()
    }

    /// The announcement to other members.
    pub(crate) fn announcement(&self) -> Announcement {
        Announcement { operation: self.operation, digest: self.digest, chunks: self.cut.chunks() }
    }

    /// Whether a chunk skips the message of a step, because the message has no elements although the chunk has some.
    /// A vector with fewer elements than ranks has empty blocks.
    pub(crate) fn spares(&self, step: u32, chunk: u32) -> bool {
        let elements = self.cut.elements(chunk);
        match self.script.steps()[step as usize].act {
            StepAction::Send { part, .. } | StepAction::Receive { part, .. } => {
                elements > 0 && self.script.extent(part, elements).is_empty()
            }
            _ => false,
        }
    }

    /// Bytes of the message that a receiving step takes, for a chunk.
    pub(crate) fn bytes(&self, step: u32, chunk: u32) -> usize {
        match self.script.steps()[step as usize].act {
            StepAction::Receive { part, .. } => {
                let elements = self.script.extent(part, self.cut.elements(chunk)).len();
                elements as usize * self.operation.element.bytes()
            }
            _ => 0,
        }
    }
}

/// Which plan runs which collectives.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The collective.
    pub kind: CollectiveKind,
    /// The rule is for vectors of at most this many bytes; without it, of any size.
    pub up_to: Option<u64>,
    /// The plan.
    pub algorithm: Arc<dyn Algorithm>,
    /// Most bytes of a message, which determines the number of chunks.
    pub message: u64,
}

/// Where a plan comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The rule with this index.
    Rule(usize),
    /// A plan chosen for a collective.
    Chosen {
        /// The collective.
        kind: CollectiveKind,
        /// The plan.
        candidate: Candidate,
    },
}

/// Identifies a compiled plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ScriptKey {
    source: Source,
    seat: u32,
    /// Whether contributions are combined in the order of seats.
    in_turn: bool,
}

/// A compiled plan of one seat.
#[derive(Clone, Debug)]
struct Compiled {
    script: Arc<Script>,
    grain: Grain,
}

/// Chosen plans, by collective and by the number of binary digits of the size in bytes.
type Chosen = BTreeMap<(CollectiveKind, u32), Candidate>;

/// Most bytes of a message in a chosen plan.
const MESSAGE: u64 = 64 << 10;

/// Compiled plans.
type Scripts = BTreeMap<ScriptKey, Compiled>;

/// The rules by which all members run collectives. Books of different members differ only in `member`.
#[derive(Debug)]
pub struct PlanBook {
    member: u32,
    ranks: u32,
    members: u32,
    order: Vec<u32>,
    /// The name of each member.
    names: Vec<u32>,
    rules: Vec<Rule>,
    /// The network for which plans are chosen if no rule fits; without it, every operation needs a rule.
    network: Option<GroupNetwork>,
    scripts: Mutex<Scripts>,
    chosen: Mutex<Chosen>,
}

impl PlanBook {
    /// Makes the book of `member`. `order` lists each rank once, in the order in which plans number them; adjacent
    /// ranks are neighbours in a ring or share a group. Members from the number of ranks on are hubs. The first rule
    /// that fits an operation applies.
    ///
    /// # Errors
    /// If `order` does not have each rank once, if there are fewer members than ranks, or if `member` is not one of
    /// them.
    pub fn new(member: u32, members: u32, order: Vec<u32>, rules: Vec<Rule>) -> Result<Self> {
        let ranks = order.len() as u32;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if ranks == 0 || !sorted.iter().copied().eq(0..ranks) || members < ranks || member >= members {
            return Err(Diagnostic::error(Code::BadValue, "the order of ranks does not have each rank once")
                .found(format!("{order:?}"))
                .into());
        }
        let names = (0..members).collect();
        Ok(Self {
            member,
            ranks,
            members,
            order,
            names,
            rules,
            network: None,
            scripts: Mutex::default(),
            chosen: Mutex::default(),
        })
    }

    /// Runs operations without a matching rule by the fastest plan on `network`, which must be the same on all
    /// members.
    #[must_use]
    pub fn with_network(mut self, network: GroupNetwork) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets a name for each member. Members are named by their index by default, but ranks keep their names after
    /// their job has lost other ranks.
    #[must_use]
    pub fn called(mut self, names: Vec<u32>) -> Self {
        assert_eq!(names.len(), self.members as usize, "a name for every member");
        self.names = names;
        self
    }

    /// The name of a member.
    pub fn name(&self, member: u32) -> u32 {
        self.names[member as usize]
    }

    /// The ranks in the order in which plans number them.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The member whose book this is.
    pub fn member(&self) -> u32 {
        self.member
    }

    /// Number of members: ranks and hubs.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Decides how an operation is run.
    ///
    /// # Errors
    /// If the operation is invalid, no rule fits it, or the plan of the rule cannot run it.
    pub fn shape(&self, operation: &Operation) -> Result<Arc<Shape>> {
        let bad = |sentence: String| Diagnostic::error(Code::BadValue, sentence);
        operation.check(self.ranks).map_err(bad)?;
        let fits = |rule: &Rule| {
            rule.kind == operation.kind && rule.up_to.is_none_or(|most| operation.bytes() <= most)
        };
        let ruled = self.rules.iter().enumerate().find(|(_, rule)| fits(rule));
        let ruled = ruled.map(|(number, rule)| (Source::Rule(number), rule.clone()));
        let Some((source, rule)) = ruled.or_else(|| self.choose(operation)) else {
            let help = "add a rule for it, or describe the network, so that a plan can be chosen";
            return Err(bad(format!("there is no rule for {operation}")).help(help).into());
        };
        let first = self.order.iter().position(|&rank| rank == operation.root).expect("root is a rank");
        let mut ranks = self.order.clone();
        // A plan broadcasts from seat 0 and reduces to it.
        if operation.kind.has_root() {
            ranks.rotate_left(first);
        }
        let seats = rule.algorithm.seats(self.ranks);
        if seats > self.members {
            let (name, there) = (rule.algorithm.name(), self.members - self.ranks);
            return Err(
                bad(format!("`{name}` needs {} hubs, but there are {there}", seats - self.ranks)).into()
            );
        }
        ranks.extend(self.ranks..seats);
        let mut places = vec![None; self.members as usize];
        (0..).zip(&ranks).for_each(|(seat, &rank)| places[rank as usize] = Some(seat));
        let Some(seat) = places[self.member as usize] else {
            return Err(
                bad(format!("`{}` has no seat for member {}", rule.algorithm.name(), self.member)).into()
            );
        };
        let in_turn = operation.association == Association::Seats;
        let key = ScriptKey { source, seat, in_turn };
        let known = self.scripts().get(&key).cloned();
        let Compiled { script, grain } =
            known.map_or_else(|| self.compile(key, &*rule.algorithm, operation), Ok)?;
        if operation.by_rank() && grain.multiple() > 1 {
            let name = rule.algorithm.name();
            return Err(bad(format!(
                "`{name}` has scratch storage, so it cannot run {} here",
                operation.kind
            ))
            .into());
        }
        let cut = Cut::new(operation, grain, &ranks[..self.ranks as usize], rule.message).map_err(bad)?;
        let digest = digest(&rule, &ranks);
        Ok(Arc::new(Shape { operation: *operation, script, cut, digest, ranks, seats: places }))
    }

    /// Chooses the fastest plan for an operation, if the network is known. Sizes with the same number of binary
    /// digits share a plan, so choices are rare.
    fn choose(&self, operation: &Operation) -> Option<(Source, Rule)> {
        let network = self.network.as_ref()?;
        let kind = operation.kind;
        let digits = u64::BITS - operation.bytes().leading_zeros();
        let known = self.chosen().get(&(kind, digits)).copied();
        let candidate = known.or_else(|| {
            let bytes = Bytes(1u64.checked_shl(digits).map_or(u64::MAX, |above| above - 1));
            let chunking =
                choice::Chunking::ByMessage { message: Bytes(MESSAGE), window: Bytes(DEFAULT_WINDOW as u64) };
            let work = Work { kind, ranks: self.ranks, bytes, chunking, network };
            let phase = Phase { work, axis: 0, candidates: &Candidate::ALL, named: None };
            let candidate = choice::choose(&[phase]).candidates[0]?;
            self.chosen().insert((kind, digits), candidate);
            Some(candidate)
        })?;
        let rule = Rule { kind, up_to: None, algorithm: candidate.algorithm(), message: MESSAGE };
        Some((Source::Chosen { kind, candidate }, rule))
    }

    fn chosen(&self) -> MutexGuard<'_, Chosen> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a seat's plan, and keeps it. Holds no lock while it compiles, so two threads may compile the same
    /// plan.
    fn compile(&self, key: ScriptKey, algorithm: &dyn Algorithm, operation: &Operation) -> Result<Compiled> {
        let script = Script::of(algorithm, operation.kind, self.ranks, key.seat, operation.association)?;
        let grain = Grain::of(algorithm, operation.kind, self.ranks)?;
        let compiled = Compiled { script: Arc::new(script), grain };
        Ok(self.scripts().entry(key).or_insert(compiled).clone())
    }

    fn scripts(&self) -> MutexGuard<'_, Scripts> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identifies the plan and the order of ranks.
fn digest(rule: &Rule, ranks: &[u32]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(rule.algorithm.name());
    hash.update(rule.message.to_le_bytes());
    ranks.iter().for_each(|rank| hash.update(rank.to_le_bytes()));
    let bytes = hash.finalize();
    u64::from_le_bytes(std::array::from_fn(|at| bytes[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_reduction::{Element, Reduction};
    use syncline_units::{Rate, Time};

    fn operation(kind: CollectiveKind, elements: u64, association: Association) -> Operation {
        Operation { kind, elements, element: Element::F32, reduction: Reduction::Sum, root: 0, association }
    }

    fn book(member: u32, ranks: u32, rules: Vec<Rule>) -> PlanBook {
        PlanBook::new(member, ranks, (0..ranks).collect(), rules).unwrap()
    }

    fn network() -> GroupNetwork {
        GroupNetwork {
            wiring: choice::Wiring::Graph {
                far: Rate::from_bytes_per_s(1_500_000_000),
                all: Rate::from_bytes_per_s(1_500_000_000),
                far_latency: Time::from_ns(30_000),
            },
            rate: Rate::from_bytes_per_s(3_000_000_000),
            count: 1,
            latency: Time::from_ns(30_000),
            overhead: Time::ZERO,
            gap: Time::from_ns(15_000),
            reduction: None,
            buffer: Some(Bytes(64 << 10)),
            paths: None,
        }
    }

    #[test]
    fn every_candidate_runs_on_every_seat() {
        for (&kind, ranks) in
            CollectiveKind::ALL.iter().flat_map(|kind| (1..=9).map(move |ranks| (kind, ranks)))
        {
            for candidate in Candidate::ALL {
                let algorithm = candidate.algorithm();
                if algorithm.offers(kind, ranks).is_err() {
                    continue;
                }
                let rule = Rule { kind, up_to: None, algorithm, message: MESSAGE };
                for association in [Association::Arrival, Association::Seats] {
                    for member in 0..ranks {
                        let operation = operation(kind, u64::from(ranks) * 1000, association);
                        book(member, ranks, vec![rule.clone()]).shape(&operation).unwrap();
                    }
                }
            }
        }
    }

    /// All members choose the same plan: one with few rounds for small vectors, a ring for large ones. A rule takes
    /// precedence.
    #[test]
    fn members_choose_the_same_plan_if_no_rule_fits() {
        use CollectiveKind::AllReduce;
        let of = |member, ranks, elements, rules: &[Rule]| {
            let book = book(member, ranks, rules.to_vec()).with_network(network());
            book.shape(&operation(AllReduce, elements, Association::Arrival)).unwrap()
        };
        let by = |name| Rule {
            kind: AllReduce,
            up_to: None,
            algorithm: syncline_plan::by_name(name).unwrap(),
            message: MESSAGE,
        };
        for (ranks, elements, name) in
            [(4, 1, "tree(fan_out=4)"), (8, 1, "tree(fan_out=4)"), (8, 10_000_000, "ring")]
        {
            let first = of(0, ranks, elements, &[]);
            assert_eq!(first.digest, of(0, ranks, elements, &[by(name)]).digest, "{ranks} {elements}");
            assert!((1..ranks).all(|member| of(member, ranks, elements, &[]).digest == first.digest));
        }
        let ruled = of(0, 8, 1, &[by("ring")]);
        assert_ne!(ruled.digest, of(0, 8, 1, &[]).digest);
        let without =
            book(0, 8, Vec::new()).shape(&operation(AllReduce, 1, Association::Arrival)).unwrap_err();
        assert!(without.0[0].message.starts_with("there is no rule for"));
    }
}
