//! A running hub, and its handle.

use super::admission_thread::{AdmissionThread, SharedState};
use super::events::Event;
use super::register::MAX_CORES;
use super::setup::{OpenError, Setup};
use super::status::Status;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::Duration;
use syncline_transport::affinity;

/// A running hub. Dropping it ends the hub.
#[derive(Debug)]
pub struct Service {
    interfaces: Vec<SocketAddr>,
    shared: SharedState,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts a hub.
    ///
    /// # Errors
    /// The setup is invalid, an address is not available, or the system cannot start a thread for a core.
    pub fn open(setup: Setup) -> Result<Self, OpenError> {
        if !(1..=MAX_CORES).contains(&setup.cores) {
            return Err(format!("has {} cores: it must have 1 to {MAX_CORES}", setup.cores).into());
        }
        let interfaces = setup.interfaces.len();
        if interfaces == 0 || interfaces > setup.cores as usize {
            return Err(format!(
                "has {interfaces} interfaces for {} cores: give at least one, and at most one for each core",
                setup.cores
            )
            .into());
        }
        if setup.limits.memory == 0 {
            return Err("has no memory for jobs: give it more than 0 bytes".to_owned().into());
        }
        let cpus = if setup.pin { affinity::allowed() } else { Vec::new() };
        if setup.pin && cpus.len() < setup.cores as usize {
            return Err(format!(
                "has no CPU for each of its {} cores: it may use {} CPUs. Serve with fewer cores, or without --pin",
                setup.cores,
                cpus.len()
            )
            .into());
        }
        let (admission, interfaces, shared) = AdmissionThread::open(setup, &cpus)?;
        let thread = std::thread::Builder::new().name("hub".to_owned()).spawn(|| admission.run());
        let thread = thread.map_err(|error| format!("cannot start its thread: {error}"))?;
        Ok(Self { interfaces, shared, thread: Some(thread) })
    }

    /// Returns the addresses where the hub listens.
    pub fn interfaces(&self) -> &[SocketAddr] {
        &self.interfaces
    }

    /// Returns the hub's status, as of its last publication, moments ago.
    pub fn status(&self) -> Status {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the events since the last call.
    pub fn events(&self) -> Vec<Event> {
        self.shared.events.lock().unwrap_or_else(PoisonError::into_inner).take().collect()
    }

    /// Refuses new jobs from now on, and ends the hub once no job has a worker, or after `most`.
    pub fn drain(&self, most: Duration) {
        *self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner) = Some(most);
        _ = self.shared.waker.wake();
    }

    /// Returns whether the hub has ended.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has published its failure.
            _ = thread.join();
        }
    }
}
