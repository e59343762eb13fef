//! How a collective of some size is run: by which plan, in which order of ranks, in how many chunks.

use crate::cut::{Cut, Grain};
use crate::operation::{Asked, Association, Operation};
use crate::script::{Act, Script};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::Algorithm;
use syncline_units::CollectiveKind;

/// How a collective of some size is run by one member.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What is asked for.
    pub operation: Operation,
    /// What the member does for each chunk.
    pub script: Arc<Script>,
    /// Which elements a chunk has.
    pub cut: Cut,
    /// Tells plans and the order of ranks apart.
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

    /// What is announced to others.
    pub(crate) fn asked(&self) -> Asked {
        Asked { operation: self.operation, digest: self.digest, chunks: self.cut.chunks() }
    }

    /// Whether the message of a step need not be sent for a chunk: it has no elements, where others of the chunk have some.
    /// A vector of fewer elements than ranks leaves blocks empty.
    pub(crate) fn spares(&self, step: u32, chunk: u32) -> bool {
        let elements = self.cut.elements(chunk);
        match self.script.steps()[step as usize].act {
            Act::Send { part, .. } | Act::Receive { part, .. } => {
                elements > 0 && self.script.extent(part, elements).is_empty()
            }
            _ => false,
        }
    }

    /// Bytes of the message that a step takes in, for a chunk.
    pub(crate) fn bytes(&self, step: u32, chunk: u32) -> usize {
        match self.script.steps()[step as usize].act {
            Act::Receive { part, .. } => {
                let elements = self.script.extent(part, self.cut.elements(chunk)).len();
                elements as usize * self.operation.element.bytes()
            }
            _ => 0,
        }
    }
}

/// Which plan runs a collective.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which collective.
    pub kind: CollectiveKind,
    /// For vectors of at most as many bytes; of any size where it is absent.
    pub up_to: Option<u64>,
    /// The plan.
    pub algorithm: Arc<dyn Algorithm>,
    /// Most bytes of a message: what chunks are cut by.
    pub message: u64,
}

/// Rule, seat, and whether contributions are combined in the order of seats.
type Key = (usize, u32, bool);

/// Plans that were compiled.
type Scripts = BTreeMap<Key, (Arc<Script>, Grain)>;

/// What all members know about how collectives are run. The same for all, but for whose book it is.
#[derive(Debug)]
pub struct Book {
    member: u32,
    ranks: u32,
    members: u32,
    order: Vec<u32>,
    /// What members are called.
    names: Vec<u32>,
    rules: Vec<Rule>,
    scripts: Mutex<Scripts>,
}

impl Book {
    /// The book of `member`. `order` gives each rank once, in the order in which plans count them: neighbours of a ring,
    /// members of a group. Members from the number of ranks on are hubs. The first rule that fits an operation holds.
    ///
    /// # Errors
    /// Where `order` is not an order of ranks, or there are fewer members than ranks.
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
        Ok(Self { member, ranks, members, order, names, rules, scripts: Mutex::default() })
    }

    /// The same, where members are called otherwise than by their places: where a job has lost ranks, the others keep their
    /// names. One for each member.
    #[must_use]
    pub fn called(mut self, names: Vec<u32>) -> Self {
        assert_eq!(names.len(), self.members as usize, "a name for every member");
        self.names = names;
        self
    }

    /// What a member is called.
    pub fn name(&self, member: u32) -> u32 {
        self.names[member as usize]
    }

    /// Whose book it is.
    pub fn member(&self) -> u32 {
        self.member
    }

    /// Ranks and hubs.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How an operation is run.
    ///
    /// # Errors
    /// Where the operation makes no sense, no rule is for it, or its plan does not offer it.
    pub fn shape(&self, operation: &Operation) -> Result<Arc<Shape>> {
        let bad = |sentence: String| Diagnostic::error(Code::BadValue, sentence);
        operation.check(self.ranks).map_err(bad)?;
        let fits = |rule: &Rule| {
            rule.kind == operation.kind && rule.up_to.is_none_or(|most| operation.bytes() <= most)
        };
        let Some((number, rule)) = self.rules.iter().enumerate().find(|(_, rule)| fits(rule)) else {
            return Err(bad(format!("there is no rule for {operation}")).into());
        };
        let first = self.order.iter().position(|&rank| rank == operation.root).expect("root is a rank");
        let mut ranks = self.order.clone();
        // A plan broadcasts from seat 0 and reduces to it.
        if matches!(operation.kind, CollectiveKind::Broadcast | CollectiveKind::Reduce) {
            ranks.rotate_left(first);
        }
        let seats = rule.algorithm.seats(self.ranks);
        if seats > self.members {
            let (name, there) = (rule.algorithm.name(), self.members - self.ranks);
            return Err(
                bad(format!("`{name}` needs {} hubs, and there are {there}", seats - self.ranks)).into()
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
        let key = (number, seat, in_turn);
        let known = self.scripts().get(&key).cloned();
        let (script, grain) = known.map_or_else(|| self.compile(key, &*rule.algorithm, operation), Ok)?;
        if operation.by_rank() && grain.multiple() > 1 {
            let name = rule.algorithm.name();
            return Err(
                bad(format!("`{name}` has scratch storage: it runs no {} here", operation.kind)).into()
            );
        }
        let cut = Cut::new(operation, grain, &ranks[..self.ranks as usize], rule.message).map_err(bad)?;
        let digest = digest(rule, &ranks);
        Ok(Arc::new(Shape { operation: *operation, script, cut, digest, ranks, seats: places }))
    }

    /// Compiles a seat's plan, and keeps it. Nobody else waits meanwhile: at worst two do the same.
    fn compile(
        &self,
        key: Key,
        algorithm: &dyn Algorithm,
        operation: &Operation,
    ) -> Result<(Arc<Script>, Grain)> {
        let script = Script::of(algorithm, operation.kind, self.ranks, key.1, operation.association)?;
        let compiled = (Arc::new(script), Grain::of(algorithm, operation.kind, self.ranks)?);
        Ok(self.scripts().entry(key).or_insert(compiled).clone())
    }

    fn scripts(&self) -> MutexGuard<'_, Scripts> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells plans and orders of ranks apart.
fn digest(rule: &Rule, ranks: &[u32]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(rule.algorithm.name());
    hash.update(rule.message.to_le_bytes());
    ranks.iter().for_each(|rank| hash.update(rank.to_le_bytes()));
    let bytes = hash.finalize();
    u64::from_le_bytes(std::array::from_fn(|at| bytes[at]))
}
