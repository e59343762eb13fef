//! The handshake of connections that Python makes itself: the one of lanes, without a socket.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};
use syncline_runtime::handshake::{Acceptor, Hello, Initiator, Key, Next, Nonce, Role, Trust};

enum Side {
    Initiator(Initiator),
    Acceptor(Acceptor),
}

/// One side of a handshake between two ranks of a job, who show each other that they have its key.
#[pyclass(frozen, module = "syncline._core")]
pub(crate) struct Handshake {
    side: Mutex<Side>,
    first: Vec<u8>,
    rank: u32,
    world: u32,
}

fn trust(key: Option<[u8; 32]>) -> Trust {
    key.map_or(Trust::Everybody, |key| Trust::Key(Key::new(key)))
}

fn nonce() -> PyResult<Nonce> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| PyOSError::new_err(format!("no random bytes: {error}")))?;
    Ok(nonce)
}

#[pymethods]
impl Handshake {
    /// The side of whoever connects, as rank `rank`, to rank `to`.
    #[staticmethod]
    fn connect(key: Option<[u8; 32]>, job: &str, rank: u32, to: u32) -> PyResult<Self> {
        let role = Role::Lane { from: rank, to, lane: 0, epoch: 0 };
        let (initiator, first) = Initiator::new(trust(key), job, role, nonce()?);
        Ok(Self { side: Mutex::new(Side::Initiator(initiator)), first, rank, world: 0 })
    }

    /// The side of whoever is connected to, as rank `rank` of `world`.
    #[staticmethod]
    fn accept(key: Option<[u8; 32]>, job: &str, rank: u32, world: u32) -> PyResult<Self> {
        let acceptor = Acceptor::new(trust(key), Some(job), nonce()?);
        Ok(Self { side: Mutex::new(Side::Acceptor(acceptor)), first: Vec::new(), rank, world })
    }

    /// What to send first.
    fn first<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.first)
    }

    /// How many bytes may be read next without taking what follows the handshake.
    fn wants(&self) -> usize {
        match &*self.side.lock().unwrap_or_else(PoisonError::into_inner) {
            Side::Initiator(initiator) => initiator.wants(),
            Side::Acceptor(acceptor) => acceptor.wants(),
        }
    }

    /// Takes in what has come. Gives what to send, and whether the other side is known then; for whoever is refused, what to
    /// send and why.
    fn received<'py>(&self, py: Python<'py>, bytes: &[u8]) -> (Bound<'py, PyBytes>, bool, Option<String>) {
        let (rank, world) = (self.rank, self.world);
        let admit = |hello: &Hello| match hello.role {
            Role::Lane { from, to, lane: 0, epoch: 0 } if to == rank && from < world && from != rank => {
                Ok(())
            }
            _ => Err(format!("this is rank {rank} of {world}, and you look for somebody else").into()),
        };
        let next = match &mut *self.side.lock().unwrap_or_else(PoisonError::into_inner) {
            Side::Initiator(initiator) => initiator.received(bytes).map_err(|shut| (shut.why, Vec::new())),
            Side::Acceptor(acceptor) => acceptor.received(bytes, admit),
        };
        let (bytes, done, why) = match next {
            Ok(Next::Wait) => (Vec::new(), false, None),
            Ok(Next::Send(bytes)) => (bytes, false, None),
            Ok(Next::Done(bytes)) => (bytes, true, None),
            Err((why, bytes)) => (bytes, false, Some(why)),
        };
        (PyBytes::new(py, &bytes), done, why)
    }

    /// Who connects, once that is known.
    fn peer(&self) -> PyResult<u32> {
        match &*self.side.lock().unwrap_or_else(PoisonError::into_inner) {
            Side::Acceptor(acceptor) => match acceptor.role() {
                Some(&Role::Lane { from, .. }) => Ok(from),
                _ => Err(PyValueError::new_err("nobody has connected yet")),
            },
            Side::Initiator(_) => Err(PyValueError::new_err("whoever connects knows to whom")),
        }
    }
}
