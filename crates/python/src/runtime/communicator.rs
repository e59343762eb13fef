//! Communicators, which run collectives and transfers between ranks.

use super::arguments::{named, read, seconds, seconds_or_none};
use super::certificates::{Secret, trust};
use super::faults::{error, join_diagnostics};
use super::memory::{Lent, Memory};
use super::operations::{Begun, Operations};
use super::pending::Pending;
use super::raised::{Raised, in_this_process};
use crate::errors::{detached, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_executor::group::{Group, PlanDecisions, TransferTag};
use syncline_executor::plan_changes::PlanChange;
use syncline_executor::session::{Session, join_with};
use syncline_executor::signals::{ConnectionSignals, OperationSpan, OperationTimes, SizeClass};
use syncline_membership::hooks::Hooks;
use syncline_membership::join_error::JoinError;
use syncline_membership::member_settings::{Interface, MESH, MemberSettings, PortRange};
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::FlowControl;
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::policy::PlanPolicy;
use syncline_protocol::settings::Settings;
use syncline_reduction::Reduction;
use syncline_units::CollectiveKind;

/// What to do if a job's ranks do not connect to each other.
const START_THE_MISSING_RANK: &str = "start the missing rank with the same MASTER_ADDR, WORLD_SIZE, job and key, and \
                                      open the job's ports in firewalls";

/// What to do if a job's ranks do not begin an epoch together.
const JOIN_THE_NEXT_EPOCH: &str = "call `renew` on all ranks that are left, at the same step; a rank that was left behind \
                                   may be started again";

/// What to do if ranks keep their plans.
const CHOOSE_OTHER_PLANS: &str = "propose plans that every rank can run, while all ranks are alive and no other proposal \
                                  is under way";

/// Round trip, its variation, the shortest one and the busy time, in seconds; the delivery rate in bytes per second, whether
/// the application limited it, and retransmitted segments.
type TcpRow = ((f64, f64, f64, f64), u64, bool, u32);

/// Rank, lane, bytes sent and received, and what the kernel knows.
type ConnectionRow = (u32, u32, u64, u64, Option<TcpRow>);

/// Group, collective, bytes, and how many seconds ago it began and ended.
type SpanRow = (u64, &'static str, u64, f64, f64);

/// The arguments of [`Communicator::join`], as JSON. `syncline.runtime` writes them, and documents them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    rank: u32,
    world: u32,
    job: String,
    coordinator: Vec<SocketAddr>,
    coordinator_rank: u32,
    /// For each interface, the address at which others reach this host, and the address at which it listens.
    interfaces: Vec<(IpAddr, IpAddr)>,
    ports: Option<(u16, u16)>,
    wait_s: f64,
    shared_memory: bool,
    pin: bool,
    elastic: bool,
    congestion: Option<String>,
    lanes: u32,
    window: usize,
    ahead: usize,
    deadline_s: f64,
    interval_s: f64,
    silence_s: f64,
    poll_s: f64,
    plans: PlanPolicy,
}

/// What a [`Communicator`] runs operations on: the session of a job, or a group of some of its ranks.
enum Ranks {
    Session(Box<Session>),
    Group(Group),
}

impl Ranks {
    fn group(&self) -> &Group {
        match self {
            Self::Session(session) => session,
            Self::Group(group) => group,
        }
    }

    fn session(&self) -> Option<&Session> {
        match self {
            Self::Session(session) => Some(session.as_ref()),
            Self::Group(_) => None,
        }
    }
}

/// The ranks of a job or group that run collectives together. `syncline.runtime.Communicator` wraps it.
#[pyclass(frozen, weakref, module = "syncline._core")]
pub(crate) struct Communicator {
    operations: Operations<Ranks>,
    rank: u32,
    ranks: Vec<u32>,
    epoch: u16,
    left_out: Vec<String>,
}

impl Communicator {
    fn new(session: Session, left_out: Vec<String>) -> Self {
        let (rank, ranks, epoch) = (session.book().member(), session.ranks().to_vec(), session.epoch());
        let operations = Operations::new("communicator", Ranks::Session(Box::new(session)));
        Self { operations, rank, ranks, epoch, left_out }
    }

    /// Checks that plans are valid and can run on these ranks.
    fn check(&self, py: Python<'_>, plans: &PlanPolicy) -> PyResult<()> {
        let of_job = self.session(|_| ()).is_some();
        let ranks = if of_job { self.ranks.clone() } else { (0..self.ranks.len() as u32).collect() };
        detached(py, || {
            let mut left_out = Vec::new();
            plans.book(self.rank, &ranks, &mut left_out)?;
            if left_out.is_empty() { Ok(()) } else { plans.check(ranks.len() as u32) }
        })
    }

    /// Calls `read` on the session, unless this is a group or is closed.
    fn session<R>(&self, read: impl FnOnce(&Session) -> R) -> Option<R> {
        self.operations.ask(|ranks| ranks.session().map(read)).flatten()
    }
}

#[pymethods]
impl Communicator {
    /// Joins a job, and returns once all its members have joined. Rank 0 calls `announce` with the addresses
    /// at which it coordinates the job before it waits for the others. `notice` gets messages about which
    /// ranks are awaited.
    #[staticmethod]
    #[pyo3(signature = (member, key=None, announce=None, notice=None))]
    fn join(
        py: Python<'_>,
        member: &str,
        key: Option<Secret>,
        announce: Option<Py<PyAny>>,
        notice: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let member: Member = read(member)?;
        let (rank, world) = (member.rank, member.world);
        if rank >= world {
            return Err(PyValueError::new_err(format!(
                "rank {rank} is not in a job of {world} ranks: ranks count from 0"
            )));
        }
        let raised = Raised::default();
        let mut announced = |addresses: &[SocketAddr]| {
            let Some(announce) = &announce else { return Ok(()) };
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let call = || Python::attach(|py| announce.call1(py, (addresses,)).map(drop));
            let called = in_this_process(call);
            called.map_err(|error| {
                raised.put(error);
                JoinError {
                    why: "the coordinator's address could not be announced".to_owned(),
                    invalid: false,
                }
            })
        };
        let joined = detached(py, || {
            let plans = member.plans;
            plans.check_lengths(world)?;
            let mut left_out = Vec::new();
            let own = MemberSettings {
                rank,
                world,
                job: member.job,
                trust: trust(key),
                coordinator: member.coordinator,
                coordinator_rank: member.coordinator_rank,
                interfaces: member
                    .interfaces
                    .into_iter()
                    .map(|(advertised, listen)| Interface { listen, advertised })
                    .collect(),
                ports: member.ports.map(|(first, last)| PortRange { first, last }),
                wait: seconds("wait_s", member.wait_s)?,
                shared_memory: member.shared_memory,
                pin: member.pin,
                mesh: MESH,
                elastic: member.elastic,
                congestion: member.congestion,
            };
            let settings = Settings {
                flow: FlowControl { lanes: member.lanes, window: member.window, ahead: member.ahead },
                patience: Patience {
                    interval: seconds("interval_s", member.interval_s)?,
                    silence: seconds("silence_s", member.silence_s)?,
                },
                deadline: seconds("deadline_s", member.deadline_s)?,
                polling: seconds_or_none("poll_s", member.poll_s)?,
            };
            // Check plans first: the error of `join_with` keeps only a message of their diagnostics.
            let all: Vec<u32> = (0..world).collect();
            plans.check(world)?;
            plans.book(rank, &all, &mut Vec::new())?;
            let mut books = |seat: u32, ranks: &[u32]| {
                left_out.clear();
                plans.book(seat, ranks, &mut left_out)
            };
            let hooks = Hooks {
                announce: &mut announced,
                wanted: &mut raised.wanted(),
                notice: &mut |what| {
                    // An exception in `notice` does not end the join.
                    let call = |notice: &Py<PyAny>| Python::attach(|py| notice.call1(py, (what,)).map(drop));
                    _ = notice.as_ref().map(|notice| in_this_process(|| call(notice)));
                },
            };
            let session = join_with(&own, &mut books, settings, hooks);
            let session = session.map_err(|error| join_diagnostics(error, START_THE_MISSING_RANK))?;
            Ok(Self::new(session, left_out))
        });
        raised.or(joined)
    }

    /// Ends this epoch, begins the next, and returns a communicator of the ranks that take part in it. This
    /// communicator is closed. `plans` is a [`PlanPolicy`] as JSON.
    fn renew(&self, py: Python<'_>, plans: &str, patience_s: f64) -> PyResult<Self> {
        let plans: PlanPolicy = read(plans)?;
        let raised = Raised::default();
        let refused = self.operations.ask(|ranks| match ranks {
            Ranks::Session(session) => session.renewal_blocker(),
            Ranks::Group(_) => {
                Some("a group cannot begin a new epoch: use the communicator of the whole job".to_owned())
            }
        });
        if let Some(why) = refused.flatten() {
            return Err(PyValueError::new_err(why));
        }
        let patience = seconds_or_none("wait_s", patience_s).map_err(|error| to_python(py, &error))?;
        // Invalid plans raise here, before the epoch ends.
        detached(py, || plans.book(self.rank, &self.ranks, &mut Vec::new()).map(drop))?;
        let Some(Ranks::Session(session)) = self.operations.take() else {
            return Err(self.operations.closed());
        };
        let renewed = detached(py, || {
            let mut left_out = Vec::new();
            let mut books = |seat: u32, ranks: &[u32]| {
                left_out.clear();
                plans.book(seat, ranks, &mut left_out)
            };
            let session = session.renew(&mut books, patience, &mut raised.wanted());
            let session = session.map_err(|error| join_diagnostics(error, JOIN_THE_NEXT_EPOCH))?;
            Ok(Self::new(session, left_out))
        });
        // All operations are over, so this frees their memory.
        self.operations.close(py);
        raised.or(renewed)
    }

    /// The ranks of this epoch, by their places in it. They keep the numbers with which the job began.
    #[getter]
    fn ranks(&self) -> Vec<u32> {
        self.ranks.clone()
    }

    /// The number of this epoch; the job's first is 0.
    #[getter]
    const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Plans of rules that are skipped, because they do not offer their collective to this number of ranks.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    /// Ranks that wait for the next epoch.
    fn waiting(&self) -> Vec<u32> {
        self.session(Session::waiting).unwrap_or_default()
    }

    /// The addresses at which this process coordinates the job; `None` if another one does, and for groups.
    fn coordinates_at(&self) -> Option<Vec<String>> {
        let addresses = self.session(Session::coordinates_at).flatten()?;
        Some(addresses.iter().map(ToString::to_string).collect())
    }

    /// This member's rank.
    #[getter]
    const fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    #[getter]
    fn world(&self) -> usize {
        self.ranks.len()
    }

    /// Describes the connections to each other rank, over all lanes. Empty for a group, and once the
    /// communicator is closed.
    fn transports(&self) -> std::collections::BTreeMap<u32, String> {
        let transports = self.session(|communicator| {
            let named = |(rank, words): (u32, String)| (!words.is_empty()).then_some((rank, words));
            (0..).zip(communicator.transports()).filter_map(named).collect()
        });
        transports.unwrap_or_default()
    }

    /// The CPU reserved for each lane's thread. Empty if the system's scheduler places the threads, for a
    /// group, and once the communicator is closed.
    fn cpus(&self) -> Vec<usize> {
        self.session(|communicator| communicator.cpus().to_vec()).unwrap_or_default()
    }

    /// The traffic with each peer on each lane: rank and lane, bytes sent and received, and what the kernel knows about
    /// the connection if it is TCP. Empty for a group, and once the communicator is closed.
    fn connections(&self, py: Python<'_>) -> Vec<ConnectionRow> {
        // Lanes may take a while to answer, so neither the interpreter nor a lock is held meanwhile.
        let reader = self.session(|session| session.traffic());
        let seconds = |time: Duration| time.as_secs_f64();
        let row = |each: ConnectionSignals| {
            let tcp = each.tcp.map(|tcp| {
                let rate = tcp.delivery_rate;
                let times = (tcp.round_trip, tcp.variation, tcp.shortest_round_trip, tcp.busy);
                let times = (seconds(times.0), seconds(times.1), seconds(times.2), seconds(times.3));
                (times, rate, tcp.application_limited, tcp.retransmits)
            });
            (each.peer, each.lane, each.sent, each.received, tcp)
        };
        let read = || reader.map(|reader| reader.read()).unwrap_or_default();
        py.detach(read).into_iter().map(row).collect()
    }

    /// How long operations took that are over: for each kind and number of binary digits of the size, their number,
    /// their bytes, the sum of their times and the longest time, in seconds.
    fn operation_times(&self) -> Vec<(&'static str, u32, u64, u64, f64, f64)> {
        let times = self.operations.ask(|ranks| ranks.group().operation_times()).unwrap_or_default();
        let row = |(class, times): (SizeClass, OperationTimes)| {
            let (total, longest) = (times.total.as_secs_f64(), times.longest.as_secs_f64());
            (class.kind.name(), class.digits, times.count, times.bytes, total, longest)
        };
        times.into_iter().map(row).collect()
    }

    /// Begins to record the operations of all groups, or ends it. Returns the operations recorded before: the number of
    /// the group, collective, bytes, and how many seconds ago it began and ended; and how many were left out.
    fn record(&self, record: bool) -> (Vec<SpanRow>, u64) {
        let now = Instant::now();
        let recorded = self.session(|session| session.record(record)).unwrap_or_default();
        let ago = |time: Instant| match now.checked_duration_since(time) {
            Some(ago) => ago.as_secs_f64(),
            None => -time.saturating_duration_since(now).as_secs_f64(),
        };
        let row = |each: &OperationSpan| {
            (each.group, each.kind.name(), each.bytes, ago(each.began), ago(each.ended))
        };
        (recorded.spans.iter().map(row).collect(), recorded.left_out)
    }

    /// The number by which all members know a group; 0 is the whole job, or a closed group.
    fn id(&self) -> u64 {
        self.operations.ask(|ranks| ranks.group().id()).unwrap_or_default()
    }

    /// Received bytes that are kept because this rank has not needed them yet: messages of collectives, the
    /// maximum of these so far, and transfers. Zeros for a group, and once the communicator is closed.
    fn kept(&self) -> (u64, u64, u64) {
        let kept = self.session(|session| session.kept()).unwrap_or_default();
        (kept.early, kept.most_early, kept.transfers)
    }

    /// Makes a group of some ranks, on the same threads and connections. All of them must make it, with the
    /// same number; the call does not wait for them. `plans` is a [`PlanPolicy`] as JSON.
    fn group(
        &self,
        py: Python<'_>,
        number: u64,
        ranks: Vec<u32>,
        plans: &str,
        deadline_s: f64,
    ) -> PyResult<Self> {
        let plans: PlanPolicy = read(plans)?;
        let world = ranks.len() as u32;
        let Some(place) = ranks.iter().position(|&rank| rank == self.rank) else {
            return Err(PyValueError::new_err(format!(
                "rank {} is not in the group: its ranks are {ranks:?}",
                self.rank
            )));
        };
        let places: Vec<u32> = (0..world).collect();
        let names =
            ranks.iter().map(|&rank| self.ranks.get(rank as usize).copied().unwrap_or(rank)).collect();
        let prepared = detached(py, || {
            plans.check_lengths(world)?;
            plans.check(world)?;
            Ok((plans.book(place as u32, &places, &mut Vec::new())?, seconds("deadline_s", deadline_s)?))
        });
        let (book, deadline) = prepared?;
        // Keep the interpreter meanwhile: another thread may wait for the same lock while it holds the
        // interpreter.
        let made = self
            .operations
            .ask(|members| members.session().map(|session| session.group(number, ranks, book, deadline)));
        let made = made.ok_or_else(|| self.operations.closed())?;
        let made = made.ok_or_else(|| {
            PyValueError::new_err("a group cannot make groups: use the communicator of the whole job")
        })?;
        let group = made.map_err(|diagnostics| to_python(py, &diagnostics))?;
        let operations = Operations::new("group", Ranks::Group(group));
        Ok(Self { operations, rank: place as u32, ranks: names, epoch: self.epoch, left_out: Vec::new() })
    }

    /// Raises an exception if plans, a [`PlanPolicy`] as JSON, are invalid or cannot run on these ranks.
    fn check_plans(&self, py: Python<'_>, plans: &str) -> PyResult<()> {
        self.check(py, &read(plans)?)
    }

    /// Proposes new plans, a [`PlanPolicy`] as JSON, and waits for the decision. Returns the number of the edition and the
    /// first operation that runs by it.
    fn change_plans(&self, py: Python<'_>, plans: &str) -> PyResult<(u32, u64)> {
        let plans: PlanPolicy = read(plans)?;
        // Most mistakes are found here, with an error of their own.
        self.check(py, &plans)?;
        let proposed = self.operations.ask(|ranks| ranks.group().propose_plans(plans));
        let proposed = proposed.ok_or_else(|| self.operations.closed())?;
        let kept = |why: String| {
            let message = format!("all ranks keep their plans: {why}");
            to_python(py, &Diagnostic::error(Code::PlansKept, message).help(CHOOSE_OTHER_PLANS).into())
        };
        let decision = Mutex::new(proposed.map_err(kept)?);
        // Let the interpreter handle signals meanwhile.
        const TURN: Duration = Duration::from_millis(100);
        loop {
            let next = || decision.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TURN);
            match py.detach(next) {
                Ok(PlanChange { edition, outcome, .. }) => {
                    return outcome.map(|from| (edition, from)).map_err(kept);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(kept("the job or the group has ended".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }

    /// The edition that was adopted last and its plans, a [`PlanPolicy`] as JSON; `None` if those with which the communicator began
    /// are in force, and once it is closed.
    fn adopted_plans(&self) -> Option<(u32, String)> {
        let adopted = self.operations.ask(|ranks| ranks.group().adopted_plans()).flatten();
        adopted.map(|(edition, policy)| {
            (edition, serde_json::to_string(&policy).expect("a policy is plain data"))
        })
    }

    /// The number of the edition that was adopted last; 0 if there is none, and once it is closed.
    fn edition(&self) -> u32 {
        self.operations.ask(|ranks| ranks.group().edition()).unwrap_or_default()
    }

    /// The number of the newest operation that has begun; 0 once it is closed.
    fn begun(&self) -> u64 {
        self.operations.ask(|ranks| ranks.group().begun()).unwrap_or_default()
    }

    /// Waits until no decision on plans is awaited.
    fn settle_plans(&self, py: Python<'_>) {
        if let Some(decisions) = self.operations.ask(|ranks| ranks.group().plan_decisions()) {
            py.detach(|| decisions.wait());
        }
    }

    /// The changes of plans so far: for each, the edition, the rank that proposed it, the first operation that ran by
    /// it, and why all ranks kept the old plans; one of the last two is `None`.
    fn plan_changes(&self) -> Vec<(u32, u32, Option<u64>, Option<String>)> {
        let changes = self.operations.ask(|ranks| ranks.group().plan_changes()).unwrap_or_default();
        let entry = |PlanChange { edition, proposer, outcome }| {
            (edition, proposer, outcome.as_ref().ok().copied(), outcome.err())
        };
        changes.into_iter().map(entry).collect()
    }

    /// Sets how long operations and transfers that begin from now on may take. Has no effect once the
    /// communicator is closed.
    fn set_deadline(&self, py: Python<'_>, deadline_s: f64) -> PyResult<()> {
        let deadline = detached(py, || seconds("deadline_s", deadline_s))?;
        _ = self.operations.ask(|ranks| ranks.group().set_deadline(deadline));
        Ok(())
    }

    /// Sends memory to a rank. `space` is 0 for applications.
    #[allow(unsafe_code)]
    fn send(&self, py: Python<'_>, memory: Py<Memory>, to: u32, space: u64, tag: i64) -> PyResult<Pending> {
        self.operations.begin(py, Lent::new(Some(memory), None), |ranks, lent| {
            // SAFETY: only the transfer that is returned gets the region, and `Operations` holds `lent` until it has ended.
            let region = unsafe { lent.input() };
            Ok(Begun::Transfer(ranks.group().send(region, to, TransferTag { space, tag })?))
        })
    }

    /// Receives into memory from a rank, or from any. Arguments are as in [`Communicator::send`].
    #[allow(unsafe_code)]
    fn receive(
        &self,
        py: Python<'_>,
        memory: Py<Memory>,
        source: Option<u32>,
        space: u64,
        tag: i64,
    ) -> PyResult<Pending> {
        self.operations.begin(py, Lent::new(None, Some(memory)), |ranks, lent| {
            // SAFETY: as in `send`.
            let region = unsafe { lent.output() };
            Ok(Begun::Transfer(ranks.group().receive(region, source, TransferTag { space, tag })?))
        })
    }

    /// Begins an operation on the whole vector in `input`, or for an all-gather in `output`. Nothing else may
    /// touch the memory until the operation is over.
    #[pyo3(signature = (kind, reduction, root, in_order, input, output, keep))]
    #[expect(clippy::too_many_arguments, reason = "one call for each collective of a training step")]
    #[allow(unsafe_code)]
    fn begin(
        &self,
        py: Python<'_>,
        kind: &str,
        reduction: &str,
        root: u32,
        in_order: bool,
        input: Option<Py<Memory>>,
        output: Option<Py<Memory>>,
        keep: bool,
    ) -> PyResult<Pending> {
        let association = if in_order { Association::Seats } else { Association::Arrival };
        let (kind, reduction) = (named::<CollectiveKind>(kind)?, named::<Reduction>(reduction)?);
        let vector = if kind == CollectiveKind::AllGather { &output } else { &input };
        let vector = vector.as_ref().map(Py::get);
        let vector = vector.ok_or_else(|| PyValueError::new_err(format!("{kind} needs a whole vector")))?;
        let (elements, element) = (vector.count(), vector.element());
        let operation = Operation { kind, elements, element, reduction, root, association };
        // Other threads of Python go on while a decision on plans is awaited.
        let held = |ranks: &Ranks| Some(ranks.group().plan_decisions()).filter(PlanDecisions::next_must_wait);
        if let Some(decisions) = self.operations.ask(held).flatten() {
            py.detach(|| decisions.wait_for_next());
        }
        self.operations.begin(py, Lent::new(input, output), |communicator, lent| {
            // SAFETY: only the operation that is returned gets the regions, and `Operations` holds `lent` until it has
            // ended.
            let (input, output) = unsafe { (lent.input(), lent.output()) };
            Ok(Begun::Collective(communicator.group().begin(&operation, input, output, keep)?))
        })
    }

    /// The fault after which nothing can begin any more, as an exception, if there was one.
    fn fault(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let fault = self.operations.ask(|ranks| ranks.group().failed()).flatten();
        fault.map(|fault| error(py, &fault).into_value(py).into_any())
    }

    /// Leaves the job or group. Operations under way fail, and their memory is released.
    fn close(&self, py: Python<'_>) {
        self.operations.close(py);
    }
}
