//! Parameter hubs, for Python: workers that join at them, and hubs that serve.

use super::certificates::{Secret, trust};
use super::operations::{Begun, Operations, Own};
use super::raised::Raised;
use super::{Pending, absent, error, read, region, seconds};
use crate::errors::{detached, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_hub::benefit::Racks;
use syncline_hub::join::{Place, join};
use syncline_hub::optimizer::Optimizers;
use syncline_hub::register::Limits;
use syncline_hub::serve::{Service, Setup};
use syncline_hub::status::ask;
use syncline_hub::terms::Terms;
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::operation::Request;

/// What a worker is told when it joins, as JSON; `syncline.hub` writes it and says what each means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Worker {
    rank: u32,
    job: String,
    hubs: Vec<SocketAddr>,
    wait_s: f64,
    congestion: Option<String>,
    deadline_s: f64,
    interval_s: f64,
    silence_s: f64,
    terms: Terms,
}

/// How a hub is set up, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    interfaces: Vec<SocketAddr>,
    cores: u32,
    pin: bool,
    ahead: usize,
    most_jobs: usize,
    memory: u64,
    congestion: Option<String>,
    interval_s: f64,
    silence_s: f64,
}

/// A job on hubs, as one of its workers sees it: `syncline.hub.Hub` has it.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Hub {
    operations: Operations<syncline_hub::join::Hub>,
}

#[pymethods]
impl Hub {
    /// Joins a job; returns once all its workers are there.
    #[staticmethod]
    #[pyo3(signature = (worker, key=None))]
    fn join(py: Python<'_>, worker: &str, key: Option<Secret>) -> PyResult<Self> {
        let worker: Worker = read(worker)?;
        let raised = Raised::default();
        let joined = detached(py, || {
            let place = Place {
                rank: worker.rank,
                job: worker.job,
                hubs: worker.hubs,
                trust: trust(key),
                wait: seconds("wait_s", worker.wait_s)?,
                congestion: worker.congestion,
                patience: Patience {
                    interval: seconds("interval_s", worker.interval_s)?,
                    silence: seconds("silence_s", worker.silence_s)?,
                },
                deadline: seconds("deadline_s", worker.deadline_s)?,
            };
            join(&place, worker.terms, &Optimizers::default(), &mut || raised.look()).map_err(absent)
        });
        Ok(Self { operations: Operations::new("hub", raised.or(joined)?) })
    }

    /// How often each vector has been pushed, by this worker or before it joined.
    fn steps(&self) -> PyResult<Vec<u64>> {
        self.operations.ask(syncline_hub::join::Hub::steps).ok_or_else(|| self.operations.closed())
    }

    /// Whether the job began with this worker.
    fn fresh(&self) -> PyResult<bool> {
        self.operations.ask(syncline_hub::join::Hub::fresh).ok_or_else(|| self.operations.closed())
    }

    /// Begins an exchange of a vector (`push`, `push_pull`, `pull`, `set`), on memory given as address and bytes, that
    /// `owner` keeps where it is.
    #[expect(clippy::too_many_arguments, reason = "one call for each vector of a training step")]
    fn begin(
        &self,
        py: Python<'_>,
        key: u32,
        wish: &str,
        input: (usize, usize),
        output: (usize, usize),
        keep: bool,
        owner: Py<PyAny>,
    ) -> PyResult<Pending> {
        let wishes = [Request::Push, Request::PushPull, Request::Pull, Request::Set];
        let wish = wishes.into_iter().find(|known| known.name() == wish);
        let wish = wish.ok_or_else(|| PyValueError::new_err("there is no such exchange"))?;
        self.operations.begin(py, owner, |hub| {
            Ok(Begun::Exchange(hub.begin(key, wish, region(input), region(output), keep)?))
        })
    }

    /// Another learning rate of a vector or of all, from this worker's next push on.
    #[pyo3(signature = (rate, key=None))]
    fn set_rate(&self, py: Python<'_>, rate: f64, key: Option<u32>) -> PyResult<()> {
        let set =
            self.operations.ask(|hub| hub.set_rate(rate, key)).ok_or_else(|| self.operations.closed())?;
        set.map_err(|diagnostics| to_python(py, &diagnostics))
    }

    /// Why nothing can begin any more, as an exception, if that is so.
    fn fault(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let fault = self.operations.ask(syncline_hub::join::Hub::failed).flatten();
        fault.map(|fault| error(py, &fault).into_value(py).into_any())
    }

    /// Leaves: what is under way fails, and memory is free again.
    fn close(&self, py: Python<'_>) {
        self.operations.close(py);
    }
}

/// A hub that serves, as `syncline.hub.Service` has it.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct HubService {
    inner: Own<Mutex<Option<Service>>>,
}

impl HubService {
    fn ask<R>(&self, question: impl FnOnce(&Service) -> R) -> Option<R> {
        self.inner.get()?.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(question)
    }
}

#[pymethods]
impl HubService {
    /// Begins to serve.
    #[staticmethod]
    #[pyo3(signature = (plan, key=None))]
    fn open(py: Python<'_>, plan: &str, key: Option<Secret>) -> PyResult<Self> {
        let plan: Plan = read(plan)?;
        let service = detached(py, || {
            let setup = Setup {
                interfaces: plan.interfaces,
                cores: plan.cores,
                pin: plan.pin,
                trust: trust(key),
                patience: Patience {
                    interval: seconds("interval_s", plan.interval_s)?,
                    silence: seconds("silence_s", plan.silence_s)?,
                },
                limits: Limits { jobs: plan.most_jobs, memory: plan.memory, ahead: plan.ahead },
                optimizers: Optimizers::default(),
                congestion: plan.congestion,
            };
            Service::open(setup).map_err(|why| {
                let taken = why.contains("in use");
                let remedy = if taken {
                    "end what listens there, or take another port"
                } else {
                    "syncline hub doctor"
                };
                Diagnostic::error(Code::NoMeeting, format!("the hub {why}")).help(remedy).into()
            })
        })?;
        Ok(Self { inner: Own::new(Mutex::new(Some(service))) })
    }

    /// Where it listens, by interface; nothing once it is closed.
    fn addresses(&self) -> Vec<String> {
        let addresses = self.ask(|service| service.interfaces().iter().map(ToString::to_string).collect());
        addresses.unwrap_or_default()
    }

    /// How it is, as JSON; nothing once it is closed.
    fn status(&self) -> Option<String> {
        self.ask(|service| serde_json::to_string(&service.status()).expect("a status is plain data"))
    }

    /// What has happened since it was asked last, as JSON.
    fn events(&self) -> String {
        let events = self.ask(Service::events).unwrap_or_default();
        serde_json::to_string(&events).expect("events are plain data")
    }

    /// Takes no new jobs, and ends once there are none, or after so many seconds.
    fn drain(&self, seconds: f64) {
        let most = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        self.ask(|service| service.drain(most));
    }

    /// Whether it has ended.
    fn ended(&self) -> bool {
        self.ask(Service::ended).unwrap_or(true)
    }

    /// Ends at once.
    fn close(&self, py: Python<'_>) {
        let Some(inner) = self.inner.get() else { return };
        let service = inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(service));
    }
}

/// How a hub elsewhere is, as JSON; waits for an answer so many seconds at most.
#[pyfunction]
#[pyo3(signature = (address, wait_s, key=None))]
pub(crate) fn hub_status(
    py: Python<'_>,
    address: &str,
    wait_s: f64,
    key: Option<Secret>,
) -> PyResult<String> {
    let address: SocketAddr =
        address.parse().map_err(|error| PyValueError::new_err(format!("{address}: {error}")))?;
    let raised = Raised::default();
    let status = detached(py, || {
        let wait = seconds("wait_s", wait_s)?;
        ask(address, &trust(key), wait, &mut || raised.look())
            .map_err(|why| {
                let remedy = "see that it runs, is reached at this address, and has the same key or CA: syncline hub serve --listen ADDRESS";
                Diagnostic::error(Code::NoMeeting, format!("the hub {address} {why}")).help(remedy).into()
            })
    });
    Ok(serde_json::to_string(&raised.or(status)?).expect("a status is plain data"))
}

/// Whether two levels of hubs may pay (luo2020, section 2.3), and the seconds per byte of both sides of the condition: without
/// and with. Rates in bytes per second; `between` is what the exchange among hubs takes, found from the rates where it is
/// not given.
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
        return Err(PyValueError::new_err("racks, workers and rates are more than 0"));
    }
    let racks = Racks { racks, workers, hub_rate, core_rate, worker_rate };
    let between = between.unwrap_or_else(|| racks.between());
    Ok((racks.pays(between), racks.flat(), racks.two_level(between)))
}
