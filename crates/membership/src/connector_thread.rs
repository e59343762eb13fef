//! The thread that connects lanes when they are first needed, in epochs of many ranks. It also accepts the lanes of others
//! for as long as the epoch lasts.

use crate::join_error::JoinError;
use crate::lane_connector::{LaneConnector, WAKER};
use crate::listeners::Listeners;
use crate::member_settings::MemberSettings;
use crate::roster::Roster;
use mio::{Events, Waker};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use syncline_protocol::fault::Trouble;
use syncline_transport::Connection;

/// What gets the connections of lanes. Peers are given by their seats.
pub trait LaneOwner: Send {
    /// A lane is connected with the same lane of a peer.
    fn connected(&self, lane: u32, peer: u32, connection: Connection);

    /// A peer could not be reached, although it is needed.
    fn unreachable(&self, lane: u32, peer: u32, trouble: Trouble);

    /// No connection can be made any more.
    fn failed(&self, trouble: Trouble);
}

/// A request to the thread.
#[derive(Debug)]
enum Request {
    /// Connect a lane with a peer after a delay, unless the peer has connected before.
    Connect { lane: u32, peer: u32, delay: Duration },
    /// End.
    Stop,
}

/// Asks for connections.
#[derive(Clone, Debug)]
pub struct Requester {
    requests: Sender<Request>,
    waker: Arc<Waker>,
}

impl Requester {
    /// Asks to connect a lane with a peer, given by its seat, after a delay, unless the peer has connected before.
    pub fn connect(&self, lane: u32, peer: u32, delay: Duration) {
        self.send(Request::Connect { lane, peer, delay });
    }

    fn send(&self, request: Request) {
        // Fails only if the thread has ended.
        if self.requests.send(request).is_ok() {
            _ = self.waker.wake();
        }
    }
}

/// Makes connections when they are first needed, once it is [started](OnDemand::start).
pub struct OnDemand {
    connector: LaneConnector,
    requests: Receiver<Request>,
    requester: Requester,
}

impl OnDemand {
    /// Prepares to connect a member's lanes in an epoch. A peer that is needed is unreachable if its host has not answered
    /// for `patience`.
    ///
    /// # Errors
    /// The system cannot wait for connections.
    pub fn new(
        member: &MemberSettings,
        roster: &Arc<Roster>,
        listeners: Listeners,
        patience: Duration,
    ) -> Result<Self, JoinError> {
        let connector = LaneConnector::new(member, roster, listeners, patience)?;
        let waker = Waker::new(connector.registry(), WAKER).map_err(|error| {
            JoinError::about_rank(member.rank, &format!("cannot wait for connections: {error}"))
        })?;
        let (requests, received) = channel();
        let requester = Requester { requests, waker: Arc::new(waker) };
        Ok(Self { connector, requests: received, requester })
    }

    /// What asks for connections.
    pub fn requester(&self) -> Requester {
        self.requester.clone()
    }

    /// Starts the thread. Connections go to `owner`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(self, owner: Box<dyn LaneOwner>) -> std::io::Result<ConnectorThread> {
        let Self { connector, requests, requester } = self;
        let connector = ConnectorLoop { connector, requests, owner };
        let thread = std::thread::Builder::new().name("connector".to_owned()).spawn(|| connector.run())?;
        Ok(ConnectorThread { requester, thread: Some(thread) })
    }
}

/// A handle of the thread. Dropping it ends the thread: the member accepts no more connections.
#[derive(Debug)]
pub struct ConnectorThread {
    requester: Requester,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ConnectorThread {
    fn drop(&mut self) {
        self.requester.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// The state of the thread.
struct ConnectorLoop {
    connector: LaneConnector,
    requests: Receiver<Request>,
    owner: Box<dyn LaneOwner>,
}

impl Drop for ConnectorLoop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.owner.failed(Trouble::bug());
        }
    }
}

impl ConnectorLoop {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            while let Ok(request) = self.requests.try_recv() {
                match request {
                    Request::Connect { lane, peer, delay } => {
                        if let Some(peer) = self.connector.peer(peer, lane) {
                            self.connector.want(peer, delay);
                        }
                    }
                    Request::Stop => return,
                }
            }
            let connected = match self.connector.advance_until(&mut events, self.connector.patience()) {
                Ok(connected) => connected,
                Err(error) => {
                    return self
                        .owner
                        .failed(Trouble::closed(&format!("cannot wait for connections: {error}")));
                }
            };
            for (peer, connection) in connected {
                if let Some(seat) = self.connector.seat(peer.rank) {
                    self.owner.connected(peer.lane, seat, connection);
                }
            }
            for (peer, trouble) in self.connector.overdue() {
                if let Some(seat) = self.connector.seat(peer.rank) {
                    self.owner.unreachable(peer.lane, seat, trouble);
                }
            }
        }
    }
}
