//! Collectives for real, for Python: a communicator on memory that Python objects own.
//!
//! - [`certificates`]: how the other side is known;
//! - [`completions`]: whoever is to be told that an operation is over;
//! - [`hub`]: parameter hubs, and workers that join at them;
//! - [`operations`]: what is under way, and whose memory that works on;
//! - [`raised`]: signals that come while Rust waits.

pub(crate) mod certificates;
pub(crate) mod completions;
pub(crate) mod hub;
mod operations;
mod raised;

use crate::errors::{detached, to_python};
use certificates::{Secret, trust};
use operations::{Begun, Held, Operations};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raised::{LOOK, Raised};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_executor::group::Group;
use syncline_executor::session::{Session, join_with};
use syncline_membership::hooks::Hooks;
use syncline_membership::place::{Absence, Interface, Place};
use syncline_plan::by_name;
use syncline_plan::choice::{Network, Wiring};
use syncline_protocol::fault::Fault;
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::Pace;
use syncline_protocol::memory::Region;
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::racks::Racks;
use syncline_protocol::settings::Settings;
use syncline_protocol::shape::{Book, Rule};
use syncline_reduction::{Element, Reduction};
use syncline_units::{Bytes, CollectiveKind, Rate, Time};

/// This process was just forked: it closes what it has of its parent's connections.
#[pyfunction]
pub(crate) fn forked() {
    syncline_transport::forks::abandon();
}

/// What a member is told when it joins, as JSON; `syncline.runtime` writes it and says what each means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    rank: u32,
    world: u32,
    job: String,
    coordinator: Vec<SocketAddr>,
    /// Addresses at which others find this host, and those at which it listens.
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
    plans: Plans,
}

/// Which plans run what, and in which order they count ranks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plans {
    order: Vec<u32>,
    /// The rack of each rank, in the place of an order.
    racks: Option<Vec<u32>>,
    rules: Vec<Way>,
    /// The network for which plans are chosen if no rule fits.
    network: Link,
}

/// The network between ranks, as `Network.plain` of Python writes it.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    near_bytes_per_s: u64,
    far_bytes_per_s: u64,
    latency_ns: u64,
    message_ns: u64,
    buffer: u64,
}

impl Link {
    fn network(self) -> Network {
        let latency = Time::from_ns(self.latency_ns);
        let far = Rate::from_bytes_per_s(self.far_bytes_per_s);
        Network {
            wiring: Wiring::Graph { far, all: far, far_latency: latency },
            rate: Rate::from_bytes_per_s(self.near_bytes_per_s),
            count: 1,
            latency,
            overhead: Time::ZERO,
            gap: Time::from_ns(self.message_ns),
            reduction: None,
            buffer: Some(Bytes(self.buffer)),
            paths: None,
        }
    }
}

/// Which plan runs what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    kind: CollectiveKind,
    up_to: Option<u64>,
    algorithm: String,
    /// Whether groups of the plan are racks.
    #[serde(default)]
    by_rack: bool,
    message: u64,
}

impl Way {
    /// The rule, where the plan offers its collective to so many ranks; `group` is how many there are in each rack.
    fn rule(&self, ranks: u32, group: Option<u32>) -> syncline_diagnostics::Result<Rule> {
        let algorithm = match (self.by_rack, group) {
            (false, _) => by_name(&self.algorithm)?,
            (true, Some(group)) => by_name(&format!("{}(group={group})", self.algorithm))?,
            (true, None) => {
                let message =
                    format!("racks that differ in size cannot be the groups of `{}`", self.algorithm);
                return Err(Diagnostic::error(Code::BadValue, message).key("racks").into());
            }
        };
        syncline_plan::registry::check(&*algorithm, self.kind, ranks)?;
        Ok(Rule { kind: self.kind, up_to: self.up_to, algorithm, message: self.message })
    }
}

impl Plans {
    /// That it speaks of as many ranks as there are.
    fn sane(&self, world: u32) -> PyResult<()> {
        let racks = self.racks.as_ref().map(|racks| ("racks", racks.len()));
        for (name, found) in [("order", self.order.len())].into_iter().chain(racks) {
            if found != world as usize {
                return Err(PyValueError::new_err(format!(
                    "`{name}` has {found} ranks, and there are {world}"
                )));
            }
        }
        Ok(())
    }

    /// How many ranks are in each rack, of those that are there; and their order.
    fn racks(&self, ranks: &[u32]) -> Option<Racks> {
        self.racks.as_ref().map(|racks| Racks::of(racks, ranks))
    }

    /// That all plans run on all ranks.
    fn check(&self, world: u32) -> syncline_diagnostics::Result<()> {
        let ranks: Vec<u32> = (0..world).collect();
        let group = self.racks(&ranks).and_then(|racks| racks.group);
        self.rules.iter().try_for_each(|way| way.rule(world, group).map(drop))
    }

    /// The book of an epoch: of a place among `ranks`. `left_out` gets the plans of rules that are left out, because they do not
    /// offer their collective to that many ranks.
    fn book(
        &self,
        seat: u32,
        ranks: &[u32],
        left_out: &mut Vec<String>,
    ) -> syncline_diagnostics::Result<Book> {
        let world = ranks.len() as u32;
        let racks = self.racks(ranks);
        let group = racks.as_ref().and_then(|racks| racks.group);
        let mut rules = Vec::with_capacity(self.rules.len());
        for way in &self.rules {
            by_name(&way.algorithm)?;
            match way.rule(world, group) {
                Ok(rule) => rules.push(rule),
                Err(_) => left_out.push(way.algorithm.clone()),
            }
        }
        // Ranks that are not there have no place in the order.
        let place = |rank: &u32| ranks.iter().position(|other| other == rank).map(|place| place as u32);
        let order = racks.map_or_else(|| self.order.iter().filter_map(place).collect(), |racks| racks.order);
        Ok(Book::new(seat, world, order, rules)?.with_network(self.network.network()))
    }
}

/// Members that did not meet, as a diagnostic.
fn absent(absence: Absence) -> Diagnostics {
    let code = if absence.nonsense { Code::BadValue } else { Code::NoMeeting };
    Diagnostic::error(code, absence.why).into()
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What runs operations: the session of a job, or a group of some of its ranks.
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

/// A group of ranks that run collectives together, as `syncline.runtime.Communicator` has it.
#[pyclass(frozen, module = "syncline._core")]
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

    /// What the session says, where it is one that is open.
    fn session<R>(&self, question: impl FnOnce(&Session) -> R) -> Option<R> {
        self.operations.ask(|ranks| ranks.session().map(question)).flatten()
    }
}

#[pymethods]
impl Communicator {
    /// Joins the members of a job; returns once all are joined. Rank 0 calls `announce` with the address at which it
    /// coordinates, before it waits for the others.
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
        member.plans.sane(world)?;
        if rank >= world {
            return Err(PyValueError::new_err(format!(
                "rank {rank} of {world}: ranks are 0 to one less than there are"
            )));
        }
        let raised = Raised::default();
        let mut announced = |addresses: &[SocketAddr]| {
            let Some(announce) = &announce else { return Ok(()) };
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let said = Python::attach(|py| announce.call1(py, (addresses,)).map(drop));
            said.map_err(|error| {
                raised.put(error);
                Absence {
                    why: "the coordinator's address could not be announced".to_owned(),
                    nonsense: false,
                }
            })
        };
        let joined = detached(py, || {
            let plans = member.plans;
            let mut left_out = Vec::new();
            let place = Place {
                rank,
                world,
                job: member.job,
                trust: trust(key),
                coordinator: member.coordinator,
                interfaces: member
                    .interfaces
                    .into_iter()
                    .map(|(told, listen)| Interface { listen, told })
                    .collect(),
                ports: member.ports,
                wait: seconds("wait_s", member.wait_s)?,
                shared_memory: member.shared_memory,
                pin: member.pin,
                elastic: member.elastic,
                congestion: member.congestion,
            };
            let settings = Settings {
                pace: Pace { lanes: member.lanes, window: member.window, ahead: member.ahead },
                patience: Patience {
                    interval: seconds("interval_s", member.interval_s)?,
                    silence: seconds("silence_s", member.silence_s)?,
                },
                deadline: seconds("deadline_s", member.deadline_s)?,
            };
            // What is invalid is said with all that is known about it.
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
                    // What is raised there is nobody's business here.
                    _ = notice
                        .as_ref()
                        .map(|notice| Python::attach(|py| notice.call1(py, (what,)).map(drop)));
                },
            };
            let session = join_with(&place, &mut books, settings, hooks);
            Ok(Self::new(session.map_err(absent)?, left_out))
        });
        raised.or(joined)
    }

    /// Ends this epoch and begins the next: a communicator of the ranks that take part in it. This one is closed.
    /// `plans` is which plans run what, as JSON.
    fn renew(&self, py: Python<'_>, plans: &str, patience_s: f64) -> PyResult<Self> {
        let plans: Plans = read(plans)?;
        let raised = Raised::default();
        let refused = self.operations.ask(|ranks| match ranks {
            Ranks::Session(session) => session.binds(),
            Ranks::Group(_) => Some("only a whole job begins a new epoch, and no group of it".to_owned()),
        });
        if let Some(why) = refused.flatten() {
            return Err(PyValueError::new_err(why));
        }
        let patience = seconds_or_none("wait_s", patience_s).map_err(|error| to_python(py, &error))?;
        // A plan that there is not, or an order without some ranks, ends nothing.
        let sane = detached(py, || plans.book(self.rank, &self.ranks, &mut Vec::new()).map(drop));
        sane?;
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
            Ok(Self::new(session.map_err(absent)?, left_out))
        });
        // What was under way is over.
        self.operations.close(py);
        raised.or(renewed)
    }

    /// The ranks of this epoch, by their places in it: what they were when the job began.
    #[getter]
    fn ranks(&self) -> Vec<u32> {
        self.ranks.clone()
    }

    /// Counts the job's epochs, from 0.
    #[getter]
    const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// Plans that do not offer their collective to so many ranks, and what runs in their stead.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    /// Ranks that wait for the next epoch.
    fn waiting(&self) -> Vec<u32> {
        self.session(Session::waiting).unwrap_or_default()
    }

    /// This member's rank.
    #[getter]
    const fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[getter]
    fn world(&self) -> usize {
        self.ranks.len()
    }

    /// What carries bytes to and from each other rank: words of all its lanes. Nothing once the communicator is closed.
    fn transports(&self) -> std::collections::BTreeMap<u32, String> {
        let transports = self.session(|communicator| {
            let named = |(rank, words): (u32, &String)| (!words.is_empty()).then(|| (rank, words.clone()));
            (0..).zip(communicator.transports()).filter_map(named).collect()
        });
        transports.unwrap_or_default()
    }

    /// The CPU that each lane's thread has to itself; nothing where the system chooses, and once the communicator is closed.
    fn cpus(&self) -> Vec<usize> {
        self.session(|communicator| communicator.cpus().to_vec()).unwrap_or_default()
    }

    /// What is kept because nobody has needed it yet, in bytes: messages of plans that came early, the most that these have
    /// been, and transfers that nobody has received. Nothing once the communicator is closed, and for a group.
    fn kept(&self) -> (u64, u64, u64) {
        let kept = self.session(|session| session.kept()).unwrap_or_default();
        (kept.early, kept.most_early, kept.transfers)
    }

    /// Makes a group of some ranks, on the same threads and connections; all of them make it, with the same number, and nobody
    /// is waited for. `plans` is which plans run what, as JSON.
    fn group(
        &self,
        py: Python<'_>,
        number: u64,
        ranks: Vec<u32>,
        plans: &str,
        deadline_s: f64,
    ) -> PyResult<Self> {
        let plans: Plans = read(plans)?;
        let world = ranks.len() as u32;
        plans.sane(world)?;
        let Some(place) = ranks.iter().position(|&rank| rank == self.rank) else {
            return Err(PyValueError::new_err(format!("rank {} is not one of {ranks:?}", self.rank)));
        };
        let places: Vec<u32> = (0..world).collect();
        let names =
            ranks.iter().map(|&rank| self.ranks.get(rank as usize).copied().unwrap_or(rank)).collect();
        let prepared = detached(py, || {
            plans.check(world)?;
            Ok((plans.book(place as u32, &places, &mut Vec::new())?, seconds("deadline_s", deadline_s)?))
        });
        let (book, deadline) = prepared?;
        // The interpreter is not let go of meanwhile: others may wait for the same lock with it.
        let made = self
            .operations
            .ask(|members| members.session().map(|session| session.group(number, ranks, book, deadline)));
        let made = made.ok_or_else(|| self.operations.closed())?;
        let made = made.ok_or_else(|| PyValueError::new_err("a group of a job makes no groups"))?;
        let group = made.map_err(|diagnostics| to_python(py, &diagnostics))?;
        let operations = Operations::new("group", Ranks::Group(group));
        Ok(Self { operations, rank: place as u32, ranks: names, epoch: self.epoch, left_out: Vec::new() })
    }

    /// Sets how long what begins from now on may take. Has no effect once the communicator is closed.
    fn set_deadline(&self, py: Python<'_>, deadline_s: f64) -> PyResult<()> {
        let deadline = detached(py, || seconds("deadline_s", deadline_s))?;
        _ = self.operations.ask(|ranks| ranks.group().set_deadline(deadline));
        Ok(())
    }

    /// Sends memory, given as address and bytes, that `owner` keeps where it is, to a rank. `space` is 0 for applications.
    fn send(
        &self,
        py: Python<'_>,
        memory: (usize, usize),
        to: u32,
        space: u64,
        tag: i64,
        owner: Py<PyAny>,
    ) -> PyResult<Pending> {
        self.operations.begin(py, owner, |ranks| {
            Ok(Begun::Transfer(ranks.group().send(region(memory), to, (space, tag))?))
        })
    }

    /// Receives memory of a rank, or of any.
    fn receive(
        &self,
        py: Python<'_>,
        memory: (usize, usize),
        source: Option<u32>,
        space: u64,
        tag: i64,
        owner: Py<PyAny>,
    ) -> PyResult<Pending> {
        self.operations.begin(py, owner, |ranks| {
            Ok(Begun::Transfer(ranks.group().receive(region(memory), source, (space, tag))?))
        })
    }

    /// Begins an operation on memory, given as address and bytes, that `owner` keeps where it is. Nobody else may touch it
    /// until the operation is over.
    #[pyo3(signature = (kind, element, reduction, elements, root, in_order, input, output, keep, owner))]
    #[expect(clippy::too_many_arguments, reason = "one call for each collective of a training step")]
    fn begin(
        &self,
        py: Python<'_>,
        kind: &str,
        element: &str,
        reduction: &str,
        elements: u64,
        root: u32,
        in_order: bool,
        input: (usize, usize),
        output: (usize, usize),
        keep: bool,
        owner: Py<PyAny>,
    ) -> PyResult<Pending> {
        let association = if in_order { Association::Seats } else { Association::Arrival };
        let (kind, element, reduction) =
            (named::<CollectiveKind>(kind)?, named::<Element>(element)?, named::<Reduction>(reduction)?);
        let operation = Operation { kind, elements, element, reduction, root, association };
        self.operations.begin(py, owner, |communicator| {
            let pending = communicator.group().begin(&operation, region(input), region(output), keep)?;
            Ok(Begun::Collective(pending))
        })
    }

    /// Why nothing can begin any more, as an exception, if that is so.
    fn fault(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let fault = self.operations.ask(|ranks| ranks.group().failed()).flatten();
        fault.map(|fault| error(py, &fault).into_value(py).into_any())
    }

    /// Leaves: what is under way fails, and memory is free again.
    fn close(&self, py: Python<'_>) {
        self.operations.close(py);
    }
}

/// A value by its name.
fn named<T: FromStr>(name: &str) -> PyResult<T>
where
    T::Err: std::fmt::Display,
{
    name.parse().map_err(|error: T::Err| PyValueError::new_err(error.to_string()))
}

/// A time, of a setting in seconds.
fn seconds(key: &str, value: f64) -> syncline_diagnostics::Result<Duration> {
    let time = seconds_or_none(key, value).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| no_time(key, value, "seconds, more than 0, ten years at most"))
}

/// The longest time that anything is waited for: clocks can count it.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A time that may be none at all.
fn seconds_or_none(key: &str, value: f64) -> syncline_diagnostics::Result<Duration> {
    let time = Duration::try_from_secs_f64(value).ok().filter(|&time| time <= LONGEST);
    time.ok_or_else(|| no_time(key, value, "seconds, 0 or more, ten years at most"))
}

fn no_time(key: &str, value: f64, allowed: &str) -> Diagnostics {
    let error = Diagnostic::error(Code::BadValue, format!("`{key}` is no time to wait for"));
    error.key(key).found(value.to_string()).allowed(allowed).into()
}

/// Memory at an address.
fn region((address, bytes): (usize, usize)) -> Region {
    // SAFETY: whoever calls `begin` gives the address of memory that `owner` keeps, and does not touch it until the operation
    // is over: `syncline.runtime` and `syncline.torch` see to that. Owners are held until then.
    #[allow(unsafe_code)]
    unsafe {
        Region::new(address as *mut u8, bytes)
    }
}

/// A fault as an exception.
fn error(py: Python<'_>, fault: &Fault) -> PyErr {
    let diagnostics: Diagnostics = Diagnostic::error(Code::PeerFailed, fault.to_string()).into();
    to_python(py, &diagnostics)
}

/// An operation under way.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Pending {
    held: Arc<Held>,
}

#[pymethods]
impl Pending {
    /// Whether it is over.
    fn done(&self) -> bool {
        drop(self.held.released());
        self.held.begun.pending().outcome().is_some()
    }

    /// Has `callback` given out by [`completions::next_completion`] once it is over.
    fn then(&self, callback: Py<PyAny>) {
        completions::put(&self.held, callback);
    }

    /// How many workers had a part in what came from a hub, at least; nothing where nothing came from one.
    fn contributors(&self) -> Option<u16> {
        match &self.held.begun {
            Begun::Collective(_) | Begun::Transfer(_) => None,
            Begun::Exchange(exchange) => exchange.contributors(),
        }
    }

    /// Which rank the other side of a transfer is, once it is over and has gone well.
    fn source(&self) -> Option<u32> {
        self.held.begun.pending().source()
    }

    /// Waits no longer for what is received, where nothing of it has come yet.
    fn withdraw(&self) {
        self.held.begun.pending().withdraw();
    }

    /// Waits until it is over, for so many seconds at most, and says whether it is. Raises what went wrong; Ctrl-C ends the
    /// waiting, and not the operation.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        if seconds.is_some_and(f64::is_nan) {
            return Err(PyValueError::new_err("NaN is no number of seconds"));
        }
        let began = Instant::now();
        loop {
            let left = seconds.map(|seconds| seconds - began.elapsed().as_secs_f64());
            let most = left.map_or(LOOK, |left| Duration::from_secs_f64(left.clamp(0.0, LOOK.as_secs_f64())));
            let outcome = py.detach(|| self.held.begun.pending().wait(most));
            drop(self.held.released());
            match outcome {
                Some(Ok(())) => return Ok(true),
                Some(Err(fault)) => return Err(error(py, &fault)),
                None => py.check_signals()?,
            }
            if left.is_some_and(|left| left <= 0.0) {
                return Ok(false);
            }
        }
    }
}
