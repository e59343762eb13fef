//! Groups of a communicator: ranks that run operations and transfer bytes among themselves, all on the same threads and
//! connections.

use super::pending::{Completion, Pending};
use super::worker::{Command, Posted};
use super::{Kept, Settings, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_membership::message::Progress;
use syncline_protocol::extract::take_out;
use syncline_protocol::fault::{Blame, Errand, Fault, Trouble};
use syncline_protocol::lane::transfers::{Label, Transfer};
use syncline_protocol::lane::{Job, MOST_GROUPS, Opening};
use syncline_protocol::memory::Region;
use syncline_protocol::operation::Operation;
use syncline_protocol::shape::Book;
use syncline_transport::bell::Bell;
use syncline_units::CollectiveKind;

/// Where a lane's thread is told something, and what wakes it.
pub(super) type Handle = (Sender<Command>, Arc<Bell>);

/// How far one group is.
#[derive(Debug, Default)]
pub(crate) struct Count {
    begun: AtomicU64,
    over: AtomicU64,
}

/// What one lane keeps: see [`Kept`].
#[derive(Debug, Default)]
pub(super) struct Stock {
    pub early: AtomicU64,
    pub most_early: AtomicU64,
    pub transfers: AtomicU64,
}

/// How far a communicator is.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    whole: Arc<Count>,
    /// Of groups, by the numbers that all their members have for them.
    groups: Mutex<BTreeMap<u64, Arc<Count>>>,
    lanes: Mutex<Vec<Arc<Stock>>>,
    /// What lanes hear, and what their peers are called.
    ears: OnceLock<(Vec<Arc<Bell>>, Arc<Book>)>,
}

impl Gauge {
    /// Operations of a group begun, and those that are over; 0 is the whole job. None where this rank has not made it.
    pub(crate) fn read(&self, group: u64) -> Progress {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let count = if group == 0 { Some(&self.whole) } else { groups.get(&group) };
        count.map_or_else(Progress::default, |count| Progress {
            begun: count.begun.load(Ordering::Relaxed),
            over: count.over.load(Ordering::Relaxed),
        })
    }

    /// Ranks from which something has come of late, on some lane.
    pub(crate) fn hears(&self) -> Vec<u32> {
        let Some((bells, book)) = self.ears.get() else { return Vec::new() };
        let heard: BTreeSet<u32> = bells.iter().flat_map(|bell| bell.hears()).collect();
        heard.into_iter().map(|peer| book.name(peer)).collect()
    }

    /// Listens to what lanes hear.
    pub(super) fn listen(&self, bells: Vec<Arc<Bell>>, book: &Arc<Book>) {
        _ = self.ears.set((bells, Arc::clone(book)));
    }

    pub(super) fn whole(&self) -> Arc<Count> {
        Arc::clone(&self.whole)
    }

    /// Room for what one more lane keeps.
    pub(super) fn lane(&self) -> Arc<Stock> {
        let stock = Arc::new(Stock::default());
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&stock));
        stock
    }

    pub(super) fn kept(&self) -> Kept {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |what: fn(&Stock) -> &AtomicU64| {
            lanes.iter().map(|lane| what(lane).load(Ordering::Relaxed)).sum()
        };
        Kept {
            early: sum(|l| &l.early),
            most_early: sum(|l| &l.most_early),
            transfers: sum(|l| &l.transfers),
        }
    }
}

/// What is known of a group on all threads.
#[derive(Debug)]
pub(super) struct Circle {
    /// Its number on this rank; 0 for the whole job.
    pub slot: u32,
    /// Its number on all its members.
    pub id: u64,
    pub book: Arc<Book>,
    /// The job's member for each of its own.
    pub members: Vec<u32>,
    count: Arc<Count>,
}

impl Circle {
    /// The group of all members.
    pub(super) fn whole(book: Arc<Book>, count: Arc<Count>) -> Arc<Self> {
        let members = (0..book.members()).collect();
        Arc::new(Self { slot: 0, id: 0, book, members, count })
    }

    /// The place of a member of the job.
    pub(super) fn place(&self, member: u32) -> Option<u32> {
        (0..).zip(&self.members).find(|&(_, &each)| each == member).map(|(place, _)| place)
    }

    /// What its ranks are called.
    pub(super) fn names(&self) -> Vec<u32> {
        (0..self.book.ranks()).map(|place| self.book.name(place)).collect()
    }
}

/// An operation that has begun.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub completion: Arc<Completion>,
    pub operation: Operation,
    pub began: Instant,
    pub deadline: Duration,
    input: Region,
    output: Region,
    /// Whether the input is gone if it fails.
    pub consumes: bool,
}

impl UnderWay {
    /// Whether another operation would read what this one writes, or write what it works on.
    fn disturbs(&self, input: Region, output: Region) -> bool {
        let clash = |a: Region, b: Region| !a.is_empty() && !b.is_empty() && a.overlaps(b);
        clash(self.output, input) || clash(self.output, output) || clash(self.input, output)
    }
}

/// A transfer that has begun.
#[derive(Debug)]
pub(super) struct Sent {
    pub completion: Arc<Completion>,
    pub errand: Errand,
    pub began: Instant,
    pub deadline: Duration,
    pub circle: Arc<Circle>,
}

/// How a group stands.
#[derive(Debug)]
pub(super) struct Standing {
    pub circle: Arc<Circle>,
    /// What its caller calls it; 0 for the whole job.
    name: u64,
    /// How long what begins now may take.
    deadline: Duration,
    newest: u64,
    /// Why nothing of it can begin any more, where that is not so of all groups.
    failed: Option<Arc<Fault>>,
    /// Lanes that know that nothing of it will come.
    released: usize,
    /// Whether its caller has left it.
    left: bool,
}

impl Standing {
    fn new(circle: Arc<Circle>, name: u64, deadline: Duration) -> Self {
        Self { circle, name, deadline, newest: 0, failed: None, released: 0, left: false }
    }
}

/// What callers and the monitor share.
#[derive(Debug)]
pub(super) struct Shared {
    pub failed: Option<Arc<Fault>>,
    /// The first operation that failed and whose input is gone.
    pub consumed: Option<(u64, Operation)>,
    /// By group and number.
    pub under_way: BTreeMap<(u32, u64), UnderWay>,
    pub transfers: BTreeMap<u64, Sent>,
    newest_transfer: u64,
    pub groups: BTreeMap<u32, Standing>,
    /// How many groups of a name have been made here.
    made: BTreeMap<u64, u64>,
}

impl Shared {
    /// Forgets what is over in a group. Lanes do not say when that is: whoever waits knows it already, and nobody else is in a
    /// hurry.
    fn prune_first(&mut self, circle: &Circle) {
        let first = |shared: &mut Self| {
            let mut of = shared.under_way.range((circle.slot, 0)..(circle.slot + 1, 0));
            of.next().filter(|(_, each)| each.completion.over()).map(|(&key, _)| key)
        };
        while let Some(key) = first(self) {
            self.under_way.remove(&key);
            circle.count.over.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same, also of what ended before others that had begun earlier, in all groups.
    pub(super) fn prune(&mut self) {
        let over = take_out(&mut self.under_way, |_, each| each.completion.over());
        for ((slot, _), _) in over {
            if let Some(standing) = self.groups.get(&slot) {
                standing.circle.count.over.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.transfers.retain(|_, each| !each.completion.over());
    }

    /// Gives a group's number back once nobody uses it: its caller, and all of so many lanes.
    fn free(&mut self, slot: u32, lanes: usize) {
        let over = |standing: &Standing| standing.left && standing.released == lanes;
        if self.groups.get(&slot).is_some_and(over) {
            self.groups.remove(&slot);
        }
    }

    /// The first operation whose input is gone, or would be.
    pub(super) fn gone(&self) -> Option<(u64, Operation)> {
        let mut open = self.under_way.iter().filter(|(_, each)| each.consumes && !each.completion.over());
        self.consumed.or_else(|| open.next().map(|(&(_, sequence), each)| (sequence, each.operation)))
    }
}

/// What all groups of a communicator have in common.
#[derive(Debug)]
pub(super) struct Crew {
    pub lanes: Vec<Handle>,
    pub settings: Settings,
    gauge: Arc<Gauge>,
    shared: Mutex<Shared>,
    /// Held while lanes release a group's memory, so that a second close of the group returns no earlier.
    disbanding: Mutex<()>,
}

impl Crew {
    pub(super) fn new(
        lanes: Vec<Handle>,
        settings: Settings,
        gauge: Arc<Gauge>,
        whole: &Arc<Circle>,
    ) -> Self {
        let whole = Standing::new(Arc::clone(whole), 0, settings.deadline);
        let shared = Shared {
            failed: None,
            consumed: None,
            under_way: BTreeMap::new(),
            transfers: BTreeMap::new(),
            newest_transfer: 0,
            groups: BTreeMap::from([(0, whole)]),
            made: BTreeMap::new(),
        };
        Self { lanes, settings, gauge, shared: Mutex::new(shared), disbanding: Mutex::new(()) }
    }

    pub(super) fn shared(&self) -> &Mutex<Shared> {
        &self.shared
    }

    pub(super) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    /// Tells a lane's thread something.
    fn tell(&self, lane: usize, command: Command) {
        let (commands, bell) = &self.lanes[lane];
        if commands.send(command).is_ok() {
            bell.ring();
        }
    }

    /// Nothing of a group that was left comes any more on one more lane.
    pub(super) fn release(&self, slot: u32) {
        let mut shared = lock(&self.shared);
        if let Some(standing) = shared.groups.get_mut(&slot) {
            standing.released += 1;
        }
        shared.free(slot, self.lanes.len());
    }

    /// Ends a group for a reason: what is under way of it fails, once inputs are as they were. Others go on. `lost` is the
    /// member of the job without which it cannot go on, if that is why.
    pub(super) fn disband(&self, slot: u32, fault: &Arc<Fault>, lost: Option<u32>) {
        let disbanding = self.disbanding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shared = lock(&self.shared);
        let Some(standing) = shared.groups.get_mut(&slot).filter(|standing| standing.failed.is_none()) else {
            return;
        };
        standing.failed = Some(Arc::clone(fault));
        let id = standing.circle.id;
        drop(shared);
        let (done, all) = channel();
        for lane in 0..self.lanes.len() {
            self.tell(lane, Command::Close { slot, lost, done: done.clone() });
        }
        drop(done);
        // A lane whose thread has ended says so by letting go of it.
        while all.recv().is_ok() {}
        let mut shared = lock(&self.shared);
        let open = |each: &UnderWay| each.consumes && !each.completion.over();
        let gone = shared.under_way.range((slot, 0)..(slot + 1, 0)).find(|(_, each)| open(each));
        let gone = gone.map(|(&(_, sequence), each)| (sequence, each.operation));
        shared.consumed = shared.consumed.or(gone);
        let operations = take_out(&mut shared.under_way, |&(of, _), _| of == slot).into_iter();
        let operations: Vec<(u64, UnderWay)> =
            operations.map(|((_, sequence), each)| (sequence, each)).collect();
        let transfers = take_out(&mut shared.transfers, |_, each| each.circle.id == id);
        let transfers: Vec<Sent> = transfers.into_iter().map(|(_, each)| each).collect();
        drop((shared, disbanding));
        end(fault, operations, transfers);
        self.gauge.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Ends operations and transfers with a fault, each with what it was.
pub(super) fn end(fault: &Fault, operations: Vec<(u64, UnderWay)>, transfers: Vec<Sent>) {
    // One by one: a callback that panics leaves the others to be ended.
    for (sequence, UnderWay { completion, operation, began, .. }) in operations {
        let during = Some((sequence, operation.into(), began.elapsed()));
        completion.end(Err(Arc::new(Fault { during, ..fault.clone() })));
    }
    for Sent { completion, errand, began, .. } in transfers {
        let during = Some((0, errand, began.elapsed()));
        completion.end(Err(Arc::new(Fault { during, ..fault.clone() })));
    }
}

/// The number by which all members know a group: from its name, and from how many groups had that name before it.
fn numbered(name: u64, earlier: u64) -> u64 {
    // SplitMix64's step: groups of different names remain as unlikely to get the same number.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    name.wrapping_add(earlier.wrapping_mul(STEP)).max(1)
}

/// How many operations of a group may begin before the oldest is over: frames carry 20 binary digits of their numbers.
const MOST_UNDER_WAY: u64 = 1 << 14;

/// Whether a collective writes over its input where that is in place.
const fn consumes(kind: CollectiveKind) -> bool {
    !matches!(kind, CollectiveKind::Broadcast | CollectiveKind::AllGather)
}

/// A group of ranks that run collectives together and send each other something. Dropped, it is left: what is under way of it
/// fails, and other groups go on.
#[derive(Debug)]
pub struct Group {
    crew: Arc<Crew>,
    circle: Arc<Circle>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.circle.slot > 0 {
            let us = self.circle.book.name(self.circle.book.member());
            let fault = Fault { blame: Blame::Rank(us), trouble: Trouble::left(), during: None };
            self.crew.disband(self.circle.slot, &Arc::new(fault), None);
            let mut shared = lock(&self.crew.shared);
            if let Some(standing) = shared.groups.get_mut(&self.circle.slot) {
                standing.left = true;
            }
            shared.free(self.circle.slot, self.crew.lanes.len());
        }
    }
}

impl Group {
    pub(super) fn new(crew: Arc<Crew>, circle: Arc<Circle>) -> Self {
        Self { crew, circle }
    }

    /// See [`super::Communicator::group`].
    pub(super) fn made(
        crew: &Arc<Crew>,
        name: u64,
        members: Vec<u32>,
        book: Book,
        deadline: Duration,
    ) -> syncline_diagnostics::Result<Self> {
        let bad = |what: String| Err(Diagnostic::error(Code::BadValue, what).into());
        let mut shared = lock(&crew.shared);
        if name == 0 || shared.groups.values().any(|standing| standing.name == name && !standing.left) {
            return bad(format!("there is a group with the number {name} already"));
        }
        // The first that is free.
        let taken: BTreeSet<u32> = shared.groups.keys().copied().collect();
        let Some(slot) = (1..MOST_GROUPS).find(|slot| !taken.contains(slot)) else {
            return bad(format!("a rank takes part in at most {MOST_GROUPS} groups at a time: leave some"));
        };
        // Members leave at different times, and must not mistake a new group for an old one of the same name.
        let earlier = shared.made.entry(name).or_default();
        let id = numbered(name, *earlier);
        *earlier += 1;
        let count = Arc::new(Count::default());
        crew.gauge.groups.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&count));
        let circle = Arc::new(Circle { slot, id, book: Arc::new(book), members, count });
        shared.groups.insert(slot, Standing::new(Arc::clone(&circle), name, deadline));
        // The lock is kept: all lanes open it before they hear of its operations.
        for lane in 0..crew.lanes.len() {
            let (book, members) = (Arc::clone(&circle.book), circle.members.clone());
            crew.tell(lane, Command::Open(Opening { slot, id, book, members }));
        }
        drop(shared);
        Ok(Self { crew: Arc::clone(crew), circle })
    }

    pub(super) fn crew(&self) -> &Arc<Crew> {
        &self.crew
    }

    /// What is known about how collectives are run.
    pub fn book(&self) -> &Book {
        &self.circle.book
    }

    /// Why nothing can begin any more, if that is so.
    pub fn failed(&self) -> Option<Arc<Fault>> {
        let shared = lock(&self.crew.shared);
        let own = || shared.groups.get(&self.circle.slot).and_then(|standing| standing.failed.clone());
        shared.failed.clone().or_else(own)
    }

    /// Sets how long operations and transfers that begin from now on may take. Those under way keep their deadlines.
    pub fn set_deadline(&self, deadline: Duration) {
        if let Some(standing) = lock(&self.crew.shared).groups.get_mut(&self.circle.slot) {
            standing.deadline = deadline;
        }
    }

    /// Begins an operation: the next of this group, which all its ranks must begin in the same order. `input` is what
    /// this rank brings and `output` where its result goes, which may be the same memory; either is empty where there is
    /// none. With `keep`, the input is as it was if the operation fails.
    ///
    /// # Errors
    /// The operation is invalid, no plan offers it, a region has another length than it must have, an operation that is
    /// under way works on the same memory (both may read it), or the oldest of the last 16,384 is not over. Nothing has begun then. Everything
    /// that happens later is the [`Pending`]'s outcome.
    pub fn begin(
        &self,
        operation: &Operation,
        input: Region,
        output: Region,
        keep: bool,
    ) -> syncline_diagnostics::Result<Pending> {
        let (book, slot) = (&self.circle.book, self.circle.slot);
        let shape = book.shape(operation)?;
        self.check(operation, input, output)?;
        let completion = Completion::new(self.crew.lanes.len() as u32);
        let pending = Pending::new(Arc::clone(&completion));
        let mut shared = lock(&self.crew.shared);
        shared.prune_first(&self.circle);
        let standing = shared.groups.get(&slot).expect("a group stands as long as it is there");
        let sequence = standing.newest + 1;
        if let Some(fault) = shared.failed.as_ref().or(standing.failed.as_ref()) {
            let during = Some((sequence, (*operation).into(), Duration::ZERO));
            completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
            return Ok(pending);
        }
        let mut others = shared.under_way.iter().filter(|(_, other)| !other.completion.over());
        if let Some((&(_, number), other)) = others.find(|(_, other)| other.disturbs(input, output)) {
            let message = format!(
                "memory of {operation} (operation {sequence}) is in use by {} (operation {number})",
                other.operation
            );
            let help = format!("wait for operation {number} before this one begins");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        let mut of_group = shared.under_way.range((slot, 0)..(slot + 1, 0));
        let oldest = of_group.next().map_or(sequence, |(&(_, oldest), _)| oldest);
        if sequence - oldest >= MOST_UNDER_WAY {
            let message = format!(
                "operation {oldest} is still under way, and {operation} would be the {MOST_UNDER_WAY}th after it"
            );
            let help = format!("wait for operation {oldest} before this one begins");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        let standing = shared.groups.get_mut(&slot).expect("as above");
        standing.newest = sequence;
        let deadline = standing.deadline;
        self.circle.count.begun.store(sequence, Ordering::Relaxed);
        let under_way = UnderWay {
            completion: Arc::clone(&completion),
            operation: *operation,
            began: Instant::now(),
            deadline,
            input,
            output,
            consumes: !keep && consumes(operation.kind) && input.overlaps(output) && !input.is_empty(),
        };
        shared.under_way.insert((slot, sequence), under_way);
        let job = Arc::new(Job { sequence, shape, input, output, keep });
        // The lock is kept: all lanes get all operations, in their order.
        for lane in 0..self.crew.lanes.len() {
            self.crew.tell(lane, Command::Start(slot, Arc::clone(&job), Arc::clone(&completion)));
        }
        Ok(pending)
    }

    /// Sends bytes to a rank of the group, which receives as many with the same space and tag. Space 0 is for applications;
    /// every other is one collective's own.
    ///
    /// # Errors
    /// [`Code::BadValue`] where there is no such other rank.
    pub fn send(
        &self,
        region: Region,
        to: u32,
        (space, tag): (u64, i64),
    ) -> syncline_diagnostics::Result<Pending> {
        self.transfer(true, region, Some(to), (space, tag))
    }

    /// Receives bytes of a rank of the group, or of any: [`Pending::source`] says of which, then. What is sent first under a
    /// tag is received first.
    ///
    /// # Errors
    /// As [`Group::send`].
    pub fn receive(
        &self,
        region: Region,
        from: Option<u32>,
        (space, tag): (u64, i64),
    ) -> syncline_diagnostics::Result<Pending> {
        self.transfer(false, region, from, (space, tag))
    }

    fn transfer(
        &self,
        sends: bool,
        region: Region,
        peer: Option<u32>,
        (space, tag): (u64, i64),
    ) -> syncline_diagnostics::Result<Pending> {
        let Circle { id, book, members, .. } = &*self.circle;
        if let Some(peer) = peer.filter(|&peer| peer >= book.ranks() || peer == book.member()) {
            let message = format!("rank {} transfers nothing to or from rank {peer}", book.member());
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed(format!("another rank: 0 to {}", book.ranks() - 1))
                .into());
        }
        if peer.is_none() && space != 0 {
            let message = "a collective's transfers are received from one rank each, not from any";
            return Err(Diagnostic::error(Code::BadValue, message).into());
        }
        let label = Label { group: *id, space, tag };
        let other = peer.map(|peer| members[peer as usize]);
        let errand = Errand::Transfer {
            sends,
            peer: peer.map(|peer| book.name(peer)),
            tag: (space == 0).then_some(tag),
            bytes: region.len() as u64,
        };
        let completion = Completion::new(1);
        let pending = Pending::new(Arc::clone(&completion));
        let mut shared = lock(&self.crew.shared);
        while let Some(first) = shared.transfers.first_entry().filter(|first| first.get().completion.over()) {
            first.remove();
        }
        let own = shared.groups.get(&self.circle.slot).expect("a group stands as long as it is there");
        let deadline = own.deadline;
        if let Some(fault) = shared.failed.as_ref().or(own.failed.as_ref()) {
            let during = Some((0, errand, Duration::ZERO));
            completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
            return Ok(pending);
        }
        shared.newest_transfer += 1;
        let number = shared.newest_transfer;
        let began = Instant::now();
        let sent = Sent {
            completion: Arc::clone(&completion),
            errand: errand.clone(),
            began,
            deadline,
            circle: Arc::clone(&self.circle),
        };
        shared.transfers.insert(number, sent);
        let lane = self.lane(label, other);
        let transfer = Transfer { id: number, label, peer: other, region };
        let circle = Arc::clone(&self.circle);
        let posted = Posted { sends, transfer, completion: Arc::clone(&completion), errand, began, circle };
        pending.can_withdraw(self.crew.lanes[lane].clone(), label, number);
        self.crew.tell(lane, Command::Transfer(Box::new(posted)));
        Ok(pending)
    }

    /// The lane of a transfer: that of its tag, so that what is received from any rank comes on one; and for collectives that
    /// of the two ranks.
    fn lane(&self, label: Label, other: Option<u32>) -> usize {
        let us = self.circle.members[self.circle.book.member() as usize];
        let which = match label.space {
            0 => label.group ^ label.tag.cast_unsigned(),
            space => space.wrapping_add(u64::from(us) + u64::from(other.unwrap_or(us))),
        };
        // Neighbours go to different lanes, whatever the number of lanes is.
        (which % self.crew.lanes.len() as u64) as usize
    }

    /// That regions are as long as an operation needs them, and lie where they may.
    fn check(
        &self,
        operation: &Operation,
        input: Region,
        output: Region,
    ) -> syncline_diagnostics::Result<()> {
        let (rank, whole) = (self.circle.book.member(), operation.bytes() as usize);
        let block = whole / self.circle.book.ranks() as usize;
        let root = rank == operation.root;
        let (from, to) = match operation.kind {
            _ if rank >= self.circle.book.ranks() => (Some(0), Some(0)),
            CollectiveKind::AllReduce | CollectiveKind::AllToAll => (Some(whole), Some(whole)),
            CollectiveKind::ReduceScatter => (Some(whole), Some(block)),
            CollectiveKind::AllGather => (Some(block), Some(whole)),
            CollectiveKind::Broadcast => (root.then_some(whole), Some(whole)),
            CollectiveKind::Reduce => (Some(whole), Some(if root { whole } else { 0 })),
        };
        for (name, region, length) in [("input", input, from), ("output", output, to)] {
            if length.is_some_and(|length| region.len() != length) {
                return Err(Diagnostic::error(
                    Code::BadValue,
                    format!("the {name} of {operation} has another length"),
                )
                .found(format!("{} bytes", region.len()))
                .allowed(format!("{} bytes", length.unwrap_or(0)))
                .into());
            }
        }
        // A block may lie where it belongs in the whole; anything else would be overwritten before it is read.
        let own = |whole: Region| whole.part(block * rank as usize..block * (rank as usize + 1));
        let alike = match operation.kind {
            _ if rank >= self.circle.book.ranks() || input.is_empty() || output.is_empty() => true,
            CollectiveKind::ReduceScatter => output.same(own(input)),
            CollectiveKind::AllGather => input.same(own(output)),
            _ => input.same(output),
        };
        if !alike && input.overlaps(output) {
            let message = format!("input and output of {operation} overlap");
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed("the same memory, a rank's own block of it, or memory apart")
                .into());
        }
        Ok(())
    }
}
