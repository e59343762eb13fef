//! A hub that runs, and whoever holds it.

use super::admission_thread::{AdmissionThread, NEVER, Window};
use super::events::Event;
use super::optimizer::Optimizers;
use super::register::{Limits, MOST_CORES};
use super::status::Status;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use syncline_protocol::heartbeat::Patience;
use syncline_transport::affinity;
use syncline_transport::trust::Trust;

/// How a hub is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where it listens: an address of each interface. Port 0 is any that is free.
    pub interfaces: Vec<SocketAddr>,
    /// Threads that sum. Core `c` is reached through interface `c mod interfaces`.
    pub cores: u32,
    /// Whether each of these threads has a CPU of its own: on a host that does nothing else.
    pub pin: bool,
    /// How it knows its workers.
    pub trust: Trust,
    /// Signs of life.
    pub patience: Patience,
    /// How much it takes on.
    pub limits: Limits,
    /// What it does with gradients.
    pub optimizers: Optimizers,
    /// The congestion control of connections (`cubic`, `reno`); the system's where it is absent.
    pub congestion: Option<String>,
}

/// A hub that runs, until it is dropped.
#[derive(Debug)]
pub struct Service {
    interfaces: Vec<SocketAddr>,
    window: Window,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Begins.
    ///
    /// # Errors
    /// A sentence: an address that cannot be had, or cores that the system gives no threads for.
    pub fn open(setup: Setup) -> Result<Self, String> {
        if !(1..=MOST_CORES).contains(&setup.cores) {
            return Err(format!("{} cores: 1 to {MOST_CORES} are allowed", setup.cores));
        }
        let interfaces = setup.interfaces.len();
        if interfaces == 0 || interfaces > setup.cores as usize {
            return Err(format!(
                "{interfaces} interfaces for {} cores: 1 to as many are allowed",
                setup.cores
            ));
        }
        if setup.limits.memory == 0 {
            return Err("0 bytes of memory for jobs: no job needs so little".to_owned());
        }
        let cpus = if setup.pin { affinity::allowed() } else { Vec::new() };
        if setup.pin && cpus.len() < setup.cores as usize {
            return Err(format!(
                "has no CPU for each of its {} cores: it may use {}. Serve with fewer, or pin none",
                setup.cores,
                cpus.len()
            ));
        }
        let (hall, interfaces, window) = AdmissionThread::open(setup, &cpus)?;
        let thread = std::thread::Builder::new().name("hub".to_owned()).spawn(|| hall.run());
        let thread = thread.map_err(|error| format!("cannot begin: {error}"))?;
        Ok(Self { interfaces, window, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn interfaces(&self) -> &[SocketAddr] {
        &self.interfaces
    }

    /// How it is, not more than a moment ago.
    pub fn status(&self) -> Status {
        self.window.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What has happened since it was asked last.
    pub fn events(&self) -> Vec<Event> {
        self.window.events.lock().unwrap_or_else(PoisonError::into_inner).take().collect()
    }

    /// Takes no new jobs, and ends once there are none, or after so long.
    pub fn drain(&self, most: Duration) {
        let most = u64::try_from(most.as_millis()).unwrap_or(NEVER - 1);
        self.window.ends.store(most, Ordering::Relaxed);
        _ = self.window.waker.wake();
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
}
