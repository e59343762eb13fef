//! Plan books: which plan runs an operation.
//!
//! A book has editions. Each applies to a group's operations from some number on, so the plans of a running job can
//! change between two operations. An edition is first prepared by all members. Once all of them have it, they adopt it
//! for the same operations.

use crate::cut::{Cut, Grain};
use crate::operation::{Association, Operation};
use crate::script::Script;
use crate::settings::DEFAULT_WINDOW;
use crate::shape::Shape;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::Algorithm;
use syncline_plan::choice::{self, Candidate, GroupNetwork, Phase, Work};
use syncline_units::{Bytes, CollectiveKind};

/// Which plan runs which collectives.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The collective.
    pub kind: CollectiveKind,
    /// The rule is for vectors of more than this many bytes; 0 includes empty ones.
    pub above: u64,
    /// The rule is for vectors of at most this many bytes; without it, of any size.
    pub up_to: Option<u64>,
    /// The plan.
    pub algorithm: Arc<dyn Algorithm>,
    /// Identifies the content of the plan's file; 0 for a plan of the library, which its name identifies.
    pub content: u64,
    /// Most bytes of a message, which determines the number of chunks.
    pub message: u64,
    /// The most lanes that work on the chunks; `None` for all.
    pub lanes: Option<u32>,
    /// How far each lane sends ahead, in bytes; `None` for as far as in other operations.
    pub window: Option<u64>,
}

impl Rule {
    /// A rule for vectors of any size, with a plan of the library.
    pub fn new(kind: CollectiveKind, algorithm: Arc<dyn Algorithm>, message: u64) -> Self {
        Self { kind, above: 0, up_to: None, algorithm, content: 0, message, lanes: None, window: None }
    }
}

/// The plans of one edition.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Each rank once, in the order in which plans number them. Adjacent ranks are neighbours in a ring or share a
    /// group.
    pub order: Vec<u32>,
    /// The first rule that fits an operation applies.
    pub rules: Vec<Rule>,
    /// The network on which the fastest plan is chosen if no rule fits. All members must have the same. Without it,
    /// every operation needs a rule.
    pub network: Option<GroupNetwork>,
}

impl Selection {
    /// Plans by rules alone.
    pub fn of(order: Vec<u32>, rules: Vec<Rule>) -> Self {
        Self { order, rules, network: None }
    }
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

/// Most classes of operations that a book remembers.
const MAX_RECENT: usize = 64;

/// An edition of a book.
#[derive(Debug)]
struct Edition {
    number: u32,
    selection: Selection,
    scripts: Mutex<Scripts>,
    chosen: Mutex<Chosen>,
}

/// The editions of a book.
#[derive(Debug)]
struct Editions {
    /// In ascending order of the first operations to which they apply, which come with them.
    adopted: Vec<(u64, Arc<Edition>)>,
    /// Editions that may be adopted, by number. There is more than one only while a late one is dropped.
    prepared: BTreeMap<u32, Arc<Edition>>,
}

/// What operations that need the same plan have in common: collective, binary digits of the size, root, and whether
/// contributions are combined in the order of seats.
type OperationClass = (CollectiveKind, u32, u32, bool);

/// The rules by which all members of a group run collectives. Books of different members differ only in `member`.
#[derive(Debug)]
pub struct PlanBook {
    member: u32,
    ranks: u32,
    members: u32,
    /// The name of each member.
    names: Vec<u32>,
    editions: Mutex<Editions>,
    recent: Mutex<Recent>,
}

/// The classes of operations that a book was asked for last, for which it compiles the plans of a new edition.
#[derive(Debug, Default)]
struct Recent {
    /// An example of each class, and when the book was last asked for one.
    examples: BTreeMap<OperationClass, (Operation, u64)>,
    asked: u64,
}

impl Recent {
    /// Notes an operation. Forgets the class that was asked for longest ago if there are too many.
    fn note(&mut self, operation: &Operation) {
        let in_turn = operation.association == Association::Seats;
        let class = (operation.kind, operation.size_digits(), operation.root, in_turn);
        self.asked += 1;
        let asked = self.asked;
        if !self.examples.contains_key(&class) && self.examples.len() == MAX_RECENT {
            let oldest = self.examples.iter().min_by_key(|(_, (_, asked))| *asked).map(|(&class, _)| class);
            oldest.map(|class| self.examples.remove(&class));
        }
        self.examples.entry(class).or_insert((*operation, asked)).1 = asked;
    }
}

impl PlanBook {
    /// Makes the book of `member`. Members from the number of ranks on are hubs.
    ///
    /// # Errors
    /// If the order does not have each rank once, if there are fewer members than ranks, or if `member` is not one of
    /// them.
    pub fn new(member: u32, members: u32, selection: Selection) -> Result<Self> {
        let ranks = selection.order.len() as u32;
        check_order(&selection.order, ranks)?;
        if members < ranks || member >= members {
            let message = format!("member {member} is not one of {members} members, {ranks} of them ranks");
            return Err(Diagnostic::error(Code::BadValue, message).into());
        }
        let first = (1, Arc::new(Edition::new(0, selection)));
        Ok(Self {
            member,
            ranks,
            members,
            names: (0..members).collect(),
            editions: Mutex::new(Editions { adopted: vec![first], prepared: BTreeMap::new() }),
            recent: Mutex::default(),
        })
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

    /// The number of the edition that applies to an operation.
    pub fn edition(&self, sequence: u64) -> u32 {
        self.editions().applying(sequence).number
    }

    /// Decides how the operation with number `sequence` is run.
    ///
    /// # Errors
    /// If the operation is invalid, no rule fits it, or the plan of the rule cannot run it.
    pub fn shape(&self, sequence: u64, operation: &Operation) -> Result<Arc<Shape>> {
        let edition = self.editions().applying(sequence);
        let shape = edition.shape(self, operation)?;
        lock(&self.recent).note(operation);
        Ok(shape)
    }

    /// Decides how an operation is run by an edition that this book has, even if it is not adopted: a member that
    /// learned of the decision earlier may already run operations by it. `None` if the book does not have it.
    ///
    /// # Errors
    /// As [`PlanBook::shape`].
    pub fn shape_by(&self, edition: u32, operation: &Operation) -> Option<Result<Arc<Shape>>> {
        let edition = self.editions().with_number(edition)?;
        Some(edition.shape(self, operation))
    }

    /// Prepares an edition: keeps it, without a change to how operations are run, and compiles the plans of
    /// operations like those that the book was asked for lately. `oldest` is the oldest operation that is
    /// under way, or else the next one; editions that applied only to earlier operations are dropped.
    ///
    /// # Errors
    /// If the order does not have each rank once, or a plan cannot run operations like those.
    pub fn prepare(&self, number: u32, selection: Selection, oldest: u64) -> Result<()> {
        check_order(&selection.order, self.ranks)?;
        let edition = Arc::new(Edition::new(number, selection));
        let recent: Vec<Operation> =
            lock(&self.recent).examples.values().map(|&(operation, _)| operation).collect();
        for operation in recent {
            edition.shape(self, &operation)?;
        }
        let mut editions = self.editions();
        let current = editions.adopted.iter().rposition(|&(from, _)| from <= oldest).unwrap_or(0);
        editions.adopted.drain(..current);
        editions.prepared.insert(number, edition);
        Ok(())
    }

    /// Adopts the prepared edition with this number for all operations from `from` on. Returns false if there is none.
    pub fn adopt(&self, number: u32, from: u64) -> bool {
        let mut editions = self.editions();
        let Some(edition) = editions.prepared.remove(&number) else { return false };
        editions.adopted.push((from, edition));
        true
    }

    /// Drops the prepared edition with this number.
    pub fn drop_prepared(&self, number: u32) {
        self.editions().prepared.remove(&number);
    }

    fn editions(&self) -> MutexGuard<'_, Editions> {
        lock(&self.editions)
    }
}

impl Editions {
    /// The edition that applies to an operation.
    fn applying(&self, sequence: u64) -> Arc<Edition> {
        let applies = self.adopted.iter().rfind(|&&(from, _)| from <= sequence);
        Arc::clone(&applies.unwrap_or(&self.adopted[0]).1)
    }

    fn with_number(&self, number: u32) -> Option<Arc<Edition>> {
        let adopted = self.adopted.iter().rev().map(|(_, edition)| edition);
        adopted.chain(self.prepared.get(&number)).find(|edition| edition.number == number).map(Arc::clone)
    }
}

impl Edition {
    fn new(number: u32, selection: Selection) -> Self {
        Self { number, selection, scripts: Mutex::default(), chosen: Mutex::default() }
    }

    /// See [`PlanBook::shape`].
    fn shape(&self, book: &PlanBook, operation: &Operation) -> Result<Arc<Shape>> {
        let bad = |sentence: String| Diagnostic::error(Code::BadValue, sentence);
        let Selection { order, rules, .. } = &self.selection;
        operation.check(book.ranks).map_err(bad)?;
        let fits = |rule: &Rule| {
            let bytes = operation.bytes();
            let fits_size =
                (rule.above == 0 || bytes > rule.above) && rule.up_to.is_none_or(|most| bytes <= most);
            rule.kind == operation.kind && fits_size
        };
        let ruled = rules.iter().enumerate().find(|(_, rule)| fits(rule));
        let ruled = ruled.map(|(number, rule)| (Source::Rule(number), rule.clone()));
        let Some((source, rule)) = ruled.or_else(|| self.choose(book.ranks, operation)) else {
            let help = "add a rule for it, or describe the network, so that a plan can be chosen";
            return Err(bad(format!("there is no rule for {operation}")).help(help).into());
        };
        let first = order.iter().position(|&rank| rank == operation.root).expect("root is a rank");
        let mut ranks = order.clone();
        // A plan broadcasts from seat 0 and reduces to it.
        if operation.kind.has_root() {
            ranks.rotate_left(first);
        }
        let seats = rule.algorithm.seats(book.ranks);
        if seats > book.members {
            let (name, there) = (rule.algorithm.name(), book.members - book.ranks);
            return Err(
                bad(format!("`{name}` needs {} hubs, but there are {there}", seats - book.ranks)).into()
            );
        }
        ranks.extend(book.ranks..seats);
        let mut places = vec![None; book.members as usize];
        (0..).zip(&ranks).for_each(|(seat, &rank)| places[rank as usize] = Some(seat));
        let Some(seat) = places[book.member as usize] else {
            return Err(
                bad(format!("`{}` has no seat for member {}", rule.algorithm.name(), book.member)).into()
            );
        };
        let in_turn = operation.association == Association::Seats;
        let key = ScriptKey { source, seat, in_turn };
        let known = lock(&self.scripts).get(&key).cloned();
        let Compiled { script, grain } =
            known.map_or_else(|| self.compile(key, &*rule.algorithm, book.ranks, operation), Ok)?;
        if operation.by_rank() && grain.multiple() > 1 {
            let name = rule.algorithm.name();
            return Err(bad(format!(
                "`{name}` has scratch storage, so it cannot run {} here",
                operation.kind
            ))
            .into());
        }
        let cut = Cut::new(operation, grain, &ranks[..book.ranks as usize], rule.message).map_err(bad)?;
        let digest = digest(&rule, &ranks);
        let edition = self.number;
        let Rule { lanes, window, .. } = rule;
        Ok(Arc::new(Shape {
            operation: *operation,
            script,
            cut,
            digest,
            edition,
            ranks,
            seats: places,
            lanes,
            window,
        }))
    }

    /// Chooses the fastest plan for an operation, if the network is known. Sizes with the same number of binary
    /// digits share a plan, so choices are rare.
    fn choose(&self, ranks: u32, operation: &Operation) -> Option<(Source, Rule)> {
        let network = self.selection.network.as_ref()?;
        let kind = operation.kind;
        let digits = operation.size_digits();
        let known = lock(&self.chosen).get(&(kind, digits)).copied();
        let candidate = known.or_else(|| {
            let bytes = Bytes(1u64.checked_shl(digits).map_or(u64::MAX, |above| above - 1));
            let chunking =
                choice::Chunking::ByMessage { message: Bytes(MESSAGE), window: Bytes(DEFAULT_WINDOW as u64) };
            let work = Work { kind, ranks, bytes, chunking, network };
            let phase = Phase { work, axis: 0, candidates: &Candidate::ALL, named: None };
            let candidate = choice::choose(&[phase]).candidates[0]?;
            lock(&self.chosen).insert((kind, digits), candidate);
            Some(candidate)
        })?;
        let rule = Rule::new(kind, candidate.algorithm(), MESSAGE);
        Some((Source::Chosen { kind, candidate }, rule))
    }

    /// Compiles a seat's plan, and keeps it. Holds no lock while it compiles, so two threads may compile the same
    /// plan.
    fn compile(
        &self,
        key: ScriptKey,
        algorithm: &dyn Algorithm,
        ranks: u32,
        operation: &Operation,
    ) -> Result<Compiled> {
        let script = Script::of(algorithm, operation.kind, ranks, key.seat, operation.association)?;
        let grain = Grain::of(algorithm, operation.kind, ranks)?;
        let compiled = Compiled { script: Arc::new(script), grain };
        Ok(lock(&self.scripts).entry(key).or_insert(compiled).clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that an order has each of `ranks` ranks once.
fn check_order(order: &[u32], ranks: u32) -> Result<()> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if ranks == 0 || !sorted.iter().copied().eq(0..ranks) {
        return Err(Diagnostic::error(Code::BadValue, "the order of ranks does not have each rank once")
            .found(format!("{order:?}"))
            .into());
    }
    Ok(())
}

/// Identifies the plan and the order of ranks.
fn digest(rule: &Rule, ranks: &[u32]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(rule.algorithm.name());
    hash.update(rule.content.to_le_bytes());
    hash.update(rule.message.to_le_bytes());
    // Which lane a chunk belongs to follows from it.
    hash.update(rule.lanes.unwrap_or(0).to_le_bytes());
    ranks.iter().for_each(|rank| hash.update(rank.to_le_bytes()));
    leading_word(&hash.finalize())
}

/// The first eight bytes of a hash.
pub(crate) fn leading_word(hash: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|at| hash[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_reduction::{Element, Reduction};
    use syncline_units::{Rate, Time};

    fn operation(kind: CollectiveKind, elements: u64, association: Association) -> Operation {
        Operation { kind, elements, element: Element::F32, reduction: Reduction::Sum, root: 0, association }
    }

    fn selection(ranks: u32, rules: Vec<Rule>) -> Selection {
        Selection::of((0..ranks).collect(), rules)
    }

    #[test]
    fn chunks_are_spread_over_the_lanes_of_the_rule_on_which_ranks_must_agree() {
        let all_reduce = operation(CollectiveKind::AllReduce, 1000, Association::Arrival);
        let shape = |lanes, window| {
            let rule = Rule { lanes, window, ..rule(CollectiveKind::AllReduce, "ring") };
            book(0, 4, vec![rule]).shape(1, &all_reduce).unwrap()
        };
        let (all, one, two, many) =
            (shape(None, None), shape(Some(1), None), shape(Some(2), None), shape(Some(9), None));
        let chunks_of = |shape: &Shape, lane| {
            let first = shape.first_chunk(lane, 3);
            (first..5).step_by(shape.lanes(3) as usize).collect::<Vec<u32>>()
        };
        let lanes = |shape: &Shape| [0, 1, 2].map(|lane| chunks_of(shape, lane));
        assert_eq!(lanes(&all), [vec![0, 3], vec![1, 4], vec![2]]);
        assert_eq!(lanes(&many), lanes(&all));
        assert_eq!(lanes(&two), [vec![0, 2, 4], vec![1, 3], vec![]]);
        assert_eq!(lanes(&one), [vec![0, 1, 2, 3, 4], vec![], vec![]]);
        let digests: std::collections::BTreeSet<u64> =
            [&all, &one, &two, &many].map(|shape| shape.digest).into();
        assert_eq!(digests.len(), 4);
        assert_eq!(shape(None, Some(1 << 20)).digest, all.digest, "a window is a rank's own");
    }

    fn book(member: u32, ranks: u32, rules: Vec<Rule>) -> PlanBook {
        PlanBook::new(member, ranks, selection(ranks, rules)).unwrap()
    }

    fn rule(kind: CollectiveKind, name: &str) -> Rule {
        let algorithm = syncline_plan::by_name(name).unwrap();
        Rule::new(kind, algorithm, MESSAGE)
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
                let rule = Rule::new(kind, algorithm, MESSAGE);
                for association in [Association::Arrival, Association::Seats] {
                    for member in 0..ranks {
                        let operation = operation(kind, u64::from(ranks) * 1000, association);
                        book(member, ranks, vec![rule.clone()]).shape(1, &operation).unwrap();
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
            let selection = Selection { network: Some(network()), ..selection(ranks, rules.to_vec()) };
            let book = PlanBook::new(member, ranks, selection).unwrap();
            book.shape(1, &operation(AllReduce, elements, Association::Arrival)).unwrap()
        };
        let by = |name| rule(AllReduce, name);
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
            book(0, 8, Vec::new()).shape(1, &operation(AllReduce, 1, Association::Arrival)).unwrap_err();
        assert!(without.0[0].message.starts_with("there is no rule for"));
    }

    #[test]
    fn rules_have_ranges_of_sizes() {
        use CollectiveKind::AllReduce;
        let rules = vec![
            Rule { above: 400, up_to: Some(4000), ..rule(AllReduce, "direct") },
            Rule { above: 4000, ..rule(AllReduce, "ring") },
            rule(AllReduce, "halving_doubling"),
        ];
        let digest = |rules: &[Rule], elements| {
            let book = book(0, 4, rules.to_vec());
            book.shape(1, &operation(AllReduce, elements, Association::Arrival)).unwrap().digest
        };
        // Elements of four bytes.
        for (elements, which) in [(0, 2), (100, 2), (101, 0), (1000, 0), (1001, 1), (1 << 20, 1)] {
            let alone = Rule { above: 0, up_to: None, ..rules[which].clone() };
            assert_eq!(digest(&rules, elements), digest(&[alone], elements), "{elements}");
        }
    }

    #[test]
    fn an_adopted_edition_applies_from_its_operation_on() {
        use CollectiveKind::AllReduce;
        let book = book(1, 4, vec![rule(AllReduce, "ring")]);
        let asked = operation(AllReduce, 1000, Association::Arrival);
        let ring = book.shape(1, &asked).unwrap();
        book.prepare(7, selection(4, vec![rule(AllReduce, "direct")]), 1).unwrap();
        // Before it is adopted, it runs only what other members announce by it.
        assert_eq!(book.shape(9, &asked).unwrap().digest, ring.digest);
        let direct = book.shape_by(7, &asked).unwrap().unwrap();
        assert_ne!(direct.digest, ring.digest);
        assert!(book.shape_by(8, &asked).is_none());
        assert!(!book.adopt(8, 5) && book.adopt(7, 5) && !book.adopt(7, 6));
        let editions: Vec<u32> = (1..8).map(|sequence| book.edition(sequence)).collect();
        assert_eq!(editions, [0, 0, 0, 0, 7, 7, 7]);
        assert_eq!(book.shape(4, &asked).unwrap().digest, ring.digest);
        assert_eq!(book.shape(5, &asked).unwrap().announcement(), direct.announcement());
        // The next one drops those that no later operation needs.
        book.prepare(8, selection(4, vec![rule(AllReduce, "halving_doubling")]), 4).unwrap();
        assert!(book.shape_by(0, &asked).is_some() && book.shape_by(7, &asked).is_some());
        book.prepare(9, selection(4, vec![rule(AllReduce, "halving_doubling")]), 5).unwrap();
        assert!(book.shape_by(0, &asked).is_none() && book.shape_by(7, &asked).is_some());
        book.drop_prepared(9);
        assert!(book.shape_by(9, &asked).is_none() && !book.adopt(9, 9));
    }

    #[test]
    fn an_edition_that_cannot_run_the_operations_so_far_is_refused() {
        use CollectiveKind::{AllGather, AllReduce};
        let book = book(0, 6, vec![rule(AllReduce, "ring"), rule(AllGather, "ring")]);
        book.shape(1, &operation(AllGather, 6, Association::Arrival)).unwrap();
        let without = selection(6, vec![rule(AllReduce, "ring")]);
        let refused = book.prepare(1, without.clone(), 1).unwrap_err();
        assert!(refused.0[0].message.starts_with("there is no rule for all_gather"), "{refused}");
        // An operation that no plan can run does not count.
        assert!(
            book.shape(2, &Operation { root: 9, ..operation(AllReduce, 6, Association::Arrival) }).is_err()
        );
        book.prepare(1, selection(6, vec![rule(AllReduce, "ring"), rule(AllGather, "direct")]), 1).unwrap();
        book.drop_prepared(1);
        let twice = Selection { order: vec![0, 1, 2, 3, 4, 4], ..without };
        assert!(book.prepare(1, twice, 1).is_err());
        assert!(book.shape_by(1, &operation(AllGather, 6, Association::Arrival)).is_none());
    }
}
