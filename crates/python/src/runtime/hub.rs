//! Parameter hubs, for Python: workers that join jobs on hubs, and hubs that serve them.

#![allow(unsafe_code)]

use super::arguments::{read, seconds};
use super::certificates::{Secret, trust};
use super::faults::{error, join_diagnostics};
use super::memory::{Lent, Memory};
use super::operations::{Begun, Operations, Own};
use super::pending::Pending;
use super::raised::Raised;
use crate::errors::{detached, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_hub::benefit::RackModel;
use syncline_hub::join::join;
use syncline_hub::optimizer::Optimizers;
use syncline_hub::register::Limits;
use syncline_hub::serve::Service;
use syncline_hub::setup::{OpenError, SaveSettings, Setup};
use syncline_hub::status::{ask, save};
use syncline_hub::terms::Terms;
use syncline_hub::worker;
use syncline_hub::worker_settings::WorkerSettings;
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::operation::Request;
use syncline_transport::trust::Trust;

/// The arguments of [`Hub::join`], as JSON. `syncline.hub` writes them, and documents them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Worker {
    rank: u32,
    job: String,
    hubs: Vec<SocketAddr>,
    #[serde(rename = "elsewhere")]
    alternate_addresses: BTreeMap<SocketAddr, Vec<SocketAddr>>,
    wait_s: f64,
    congestion: Option<String>,
    deadline_s: f64,
    interval_s: f64,
    silence_s: f64,
    terms: Terms,
}

/// The arguments of [`HubService::open`], as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceArguments {
    interfaces: Vec<SocketAddr>,
    cores: u32,
    pin: bool,
    ahead: usize,
    max_jobs: usize,
    memory: u64,
    congestion: Option<String>,
    interval_s: f64,
    silence_s: f64,
    saves: Option<SaveArguments>,
}

/// Where and how often a hub saves its jobs, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveArguments {
    folder: PathBuf,
    every_s: Option<f64>,
}

/// What to do if the workers of a job and its hubs do not connect to each other.
const START_WHAT_IS_MISSING: &str = "start the missing hub or rank, with the same hubs, job and key on all ranks, and \
                                     open the hubs' ports in firewalls";

/// A job on hubs, as one of its workers sees it. `syncline.hub.Hub` wraps it.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Hub {
    operations: Operations<worker::Worker>,
}

#[pymethods]
impl Hub {
    /// Joins a job, and returns once all its workers have joined.
    #[staticmethod]
    #[pyo3(signature = (worker, key=None))]
    fn join(py: Python<'_>, worker: &str, key: Option<Secret>) -> PyResult<Self> {
        let worker: Worker = read(worker)?;
        let raised = Raised::default();
        let joined = detached(py, || {
            let settings = WorkerSettings {
                rank: worker.rank,
                job: worker.job,
                hubs: worker.hubs,
                alternate_addresses: worker.alternate_addresses,
                trust: trust(key),
                wait: seconds("wait_s", worker.wait_s)?,
                congestion: worker.congestion,
                patience: Patience {
                    interval: seconds("interval_s", worker.interval_s)?,
                    silence: seconds("silence_s", worker.silence_s)?,
                },
                deadline: seconds("deadline_s", worker.deadline_s)?,
            };
            join(&settings, worker.terms, &Optimizers::default(), &mut || raised.look())
                .map_err(|error| join_diagnostics(error, START_WHAT_IS_MISSING))
        });
        Ok(Self { operations: Operations::new("hub", raised.or(joined)?) })
    }

    /// How often each vector has been pushed: before this worker joined, and by it.
    fn steps(&self) -> PyResult<Vec<u64>> {
        self.operations.ask(worker::Worker::steps).ok_or_else(|| self.operations.closed())
    }

    /// Whether the job began with this worker.
    fn fresh(&self) -> PyResult<bool> {
        self.operations.ask(worker::Worker::fresh).ok_or_else(|| self.operations.closed())
    }

    /// Begins an exchange of a vector; `request` is `push`, `push_pull`, `pull` or `set`. Nothing else
    /// may touch the memory until the exchange is over.
    fn begin(
        &self,
        py: Python<'_>,
        key: u32,
        request: &str,
        input: Option<Py<Memory>>,
        output: Option<Py<Memory>>,
        keep: bool,
    ) -> PyResult<Pending> {
        let requests = [Request::Push, Request::PushPull, Request::Pull, Request::Set];
        let request = requests
            .into_iter()
            .find(|known| known.name() == request)
            .ok_or_else(|| PyValueError::new_err(format!("`{request}` is not an exchange with a hub")))?;
        self.operations.begin(py, Lent::new(input, output), |hub, lent| {
            // SAFETY: only the exchange that is returned gets the regions, and `Operations` holds `lent` until it has ended.
            let (input, output) = unsafe { (lent.input(), lent.output()) };
            Ok(Begun::Exchange(hub.begin(key, request, input, output, keep)?))
        })
    }

    /// Sets the learning rate of one vector or all, from this worker's next push on.
    #[pyo3(signature = (rate, key=None))]
    fn set_rate(&self, py: Python<'_>, rate: f64, key: Option<u32>) -> PyResult<()> {
        let set =
            self.operations.ask(|hub| hub.set_rate(rate, key)).ok_or_else(|| self.operations.closed())?;
        set.map_err(|diagnostics| to_python(py, &diagnostics))
    }

    /// The fault after which nothing can begin any more, as an exception, if there was one.
    fn fault(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let fault = self.operations.ask(worker::Worker::failed).flatten();
        fault.map(|fault| error(py, &fault).into_value(py).into_any())
    }

    /// Leaves the job. Exchanges under way fail, and their memory is released.
    fn close(&self, py: Python<'_>) {
        self.operations.close(py);
    }
}

/// A hub that serves workers. `syncline.hub.Service` wraps it.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct HubService {
    inner: Own<Mutex<Option<Service>>>,
}

impl HubService {
    /// Calls `read` on the service, unless it is closed.
    fn ask<R>(&self, read: impl FnOnce(&Service) -> R) -> Option<R> {
        self.inner.get()?.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(read)
    }
}

#[pymethods]
impl HubService {
    /// Starts a hub, which listens from then on.
    #[staticmethod]
    #[pyo3(signature = (arguments, key=None))]
    fn open(py: Python<'_>, arguments: &str, key: Option<Secret>) -> PyResult<Self> {
        let arguments: ServiceArguments = read(arguments)?;
        let service = detached(py, || {
            let setup = Setup {
                interfaces: arguments.interfaces,
                cores: arguments.cores,
                pin: arguments.pin,
                trust: trust(key),
                patience: Patience {
                    interval: seconds("interval_s", arguments.interval_s)?,
                    silence: seconds("silence_s", arguments.silence_s)?,
                },
                limits: Limits { jobs: arguments.max_jobs, memory: arguments.memory, ahead: arguments.ahead },
                optimizers: Optimizers::default(),
                congestion: arguments.congestion,
                saves: match arguments.saves {
                    None => None,
                    Some(SaveArguments { folder, every_s }) => Some(SaveSettings {
                        folder,
                        every: every_s.map(|every_s| seconds("every_s", every_s)).transpose()?,
                    }),
                },
            };
            Service::open(setup).map_err(|why| {
                let remedy = match why {
                    OpenError::AddressInUse { .. } => {
                        "end the process that listens there, or use another port"
                    }
                    OpenError::Saves(_) => {
                        "choose a folder that this user can write to and no other hub uses"
                    }
                    OpenError::Other(_) => "syncline hub doctor",
                };
                Diagnostic::error(Code::NoMeeting, format!("the hub {why}")).help(remedy).into()
            })
        })?;
        Ok(Self { inner: Own::new(Mutex::new(Some(service))) })
    }

    /// The addresses at which the hub listens, one for each interface. Empty once it is closed.
    fn addresses(&self) -> Vec<String> {
        let addresses = self.ask(|service| service.interfaces().iter().map(ToString::to_string).collect());
        addresses.unwrap_or_default()
    }

    /// The hub's status, as JSON; `None` once it is closed.
    fn status(&self) -> Option<String> {
        self.ask(|service| serde_json::to_string(&service.status()).expect("a status is plain data"))
    }

    /// What has happened since the previous call, as JSON.
    fn events(&self) -> String {
        let events = self.ask(Service::events).unwrap_or_default();
        serde_json::to_string(&events).expect("events are plain data")
    }

    /// Refuses new jobs from now on, and ends the hub once it has no jobs, or after `seconds`.
    fn drain(&self, seconds: f64) {
        let most = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        self.ask(|service| service.drain(most));
    }

    /// Whether the hub has ended.
    fn ended(&self) -> bool {
        self.ask(Service::ended).unwrap_or(true)
    }

    /// Ends the hub at once.
    fn close(&self, py: Python<'_>) {
        let Some(inner) = self.inner.get() else { return };
        let service = inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(service));
    }
}

/// Asks the hub at `address` for its status, as JSON. Waits at most `wait_s` seconds for the answer.
#[pyfunction]
#[pyo3(signature = (address, wait_s, key=None))]
pub(crate) fn hub_status(
    py: Python<'_>,
    address: &str,
    wait_s: f64,
    key: Option<Secret>,
) -> PyResult<String> {
    let status = ask_hub(py, address, wait_s, key, ask)?;
    Ok(serde_json::to_string(&status).expect("a status is plain data"))
}

/// Asks the hub at `address` a question, such as for its status.
fn ask_hub<T: Send>(
    py: Python<'_>,
    address: &str,
    wait_s: f64,
    key: Option<Secret>,
    question: impl FnOnce(
        SocketAddr,
        &Trust,
        Duration,
        &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<T, String>
    + Send,
) -> PyResult<T> {
    let address: SocketAddr =
        address.parse().map_err(|error| PyValueError::new_err(format!("{address}: {error}")))?;
    let raised = Raised::default();
    let answer = detached(py, || {
        let wait = seconds("wait_s", wait_s)?;
        question(address, &trust(key), wait, &mut || raised.look()).map_err(|why| {
            let remedy = "check that the hub runs (syncline hub serve --listen ADDRESS), can be reached at \
                          this address, and uses the same key or CA";
            Diagnostic::error(Code::NoMeeting, format!("the hub {address} {why}")).help(remedy).into()
        })
    });
    raised.or(answer)
}

/// Asks the hub at `address` to save its jobs. Returns what has become of each, as JSON; `null` if the hub keeps no
/// saves. Waits at most `wait_s` seconds for the answer.
#[pyfunction]
#[pyo3(signature = (address, wait_s, key=None))]
pub(crate) fn hub_save(py: Python<'_>, address: &str, wait_s: f64, key: Option<Secret>) -> PyResult<String> {
    let reports = ask_hub(py, address, wait_s, key, save)?;
    Ok(serde_json::to_string(&reports).expect("reports are plain data"))
}

/// Returns whether two levels of hubs may pay (luo2020, section 2.3), and the seconds per byte of both sides
/// of the condition: with one level and with two. Rates are in bytes per second. `between` is the seconds per
/// byte of the exchange among hubs; by default it is computed from the rates.
#[pyfunction]
#[pyo3(signature = (racks, workers, hub_rate, core_rate, worker_rate, between=None))]
pub(crate) fn two_levels(
    racks: u32,
    workers: u32,
    hub_rate: f64,
    core_rate: f64,
    worker_rate: f64,
    between: Option<f64>,
) -> PyResult<(bool, f64, f64)> {
    let sane = |rate: f64| rate.is_finite() && rate > 0.0;
    if racks == 0 || workers == 0 || ![hub_rate, core_rate, worker_rate].into_iter().all(sane) {
        return Err(PyValueError::new_err("racks, workers and rates must be more than 0"));
    }
    let racks = RackModel { racks, workers, hub_rate, core_rate, worker_rate };
    let between = between.unwrap_or_else(|| racks.between());
    Ok((racks.pays(between), racks.flat(), racks.two_level(between)))
}
