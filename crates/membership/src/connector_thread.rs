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
use syncline_transport::forks::Watcher;

/// What gets the connections of lanes. Peers are given by their seats.
pub trait LaneOwner: Send {
    /// A lane is connected with the same lane of a peer. The lane calls [`Requester::arrived`] before it uses the
    /// connection.
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
    /// Watches connections on their way to their lanes, so that a forked child finds them.
    transit: Arc<Watcher>,
}

impl Requester {
    /// Asks to connect a lane with a peer, given by its seat, after a delay, unless the peer has connected before.
    pub fn connect(&self, lane: u32, peer: u32, delay: Duration) {
        self.send(Request::Connect { lane, peer, delay });
    }

    /// Ends a connection's way from [`LaneOwner::connected`] to its lane. Until then it must not be registered with a poll.
    pub fn arrived(&self, connection: &mut Connection) {
        // Fails if the connection is broken, which its lane will notice.
        _ = connection.unwatch(self.transit.registry());
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
        let fault = |error: std::io::Error| {
            JoinError::about_rank(member.rank, &format!("cannot wait for connections: {error}"))
        };
        let waker = Arc::new(Waker::new(connector.registry(), WAKER).map_err(fault)?);
        let transit = Arc::new(Watcher::new().map_err(fault)?);
        let (requests, received) = channel();
        let connector = connector.with_transit(Arc::clone(&transit));
        let requester = Requester { requests, waker, transit };
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
            if let Some(trouble) = self.connector.exhausted() {
                return self.owner.failed(trouble);
            }
            for (peer, trouble) in self.connector.overdue() {
                if let Some(seat) = self.connector.seat(peer.rank) {
                    self.owner.unreachable(peer.lane, seat, trouble);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_connector::tests::members;
    use std::sync::Mutex;
    use std::time::Instant;
    use syncline_protocol::fault::FaultKind;

    /// What the connector has told its owner.
    #[derive(Default)]
    struct Told {
        connections: Vec<(u32, u32, Connection)>,
        failed: Vec<Trouble>,
    }

    /// An owner that records what the connector tells it, or panics.
    #[derive(Clone, Default)]
    struct Keeper {
        told: Arc<Mutex<Told>>,
        panics: bool,
    }

    impl LaneOwner for Keeper {
        fn connected(&self, lane: u32, peer: u32, connection: Connection) {
            assert!(!self.panics, "a test");
            self.told.lock().unwrap().connections.push((lane, peer, connection));
        }

        fn unreachable(&self, _: u32, peer: u32, trouble: Trouble) {
            panic!("peer {peer} {}", trouble.what);
        }

        fn failed(&self, trouble: Trouble) {
            self.told.lock().unwrap().failed.push(trouble);
        }
    }

    /// Waits until the connector has told the owner something.
    fn wait(owner: &Keeper) {
        let began = Instant::now();
        let quiet = || {
            let told = owner.told.lock().unwrap();
            told.connections.is_empty() && told.failed.is_empty()
        };
        while quiet() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts the threads of two members, whose owners are these, and connects them.
    fn connected(owners: &[Keeper; 2]) -> Vec<ConnectorThread> {
        let threads: Vec<ConnectorThread> = (members(2, 1, false).into_iter().zip(owners))
            .map(|((member, roster, listeners), owner)| {
                let patience = Duration::from_secs(10);
                let on_demand = OnDemand::new(&member, &roster, listeners, patience).unwrap();
                on_demand.start(Box::new(owner.clone())).unwrap()
            })
            .collect();
        threads[0].requester.connect(0, 1, Duration::ZERO);
        threads
    }

    #[test]
    fn a_panic_of_the_thread_is_reported() {
        let owners = [Keeper { panics: true, ..Keeper::default() }, Keeper::default()];
        let _threads = connected(&owners);
        wait(&owners[0]);
        let told = owners[0].told.lock().unwrap();
        assert!(
            matches!(&told.failed[..], [Trouble { kind: FaultKind::Closed, what }] if what.contains("bug"))
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_finds_connections_on_their_way_to_their_lanes() {
        let owners = [Keeper::default(), Keeper::default()];
        let threads = connected(&owners);
        for (owner, thread) in owners.iter().zip(&threads) {
            wait(owner);
            let mut told = owner.told.lock().unwrap();
            assert_eq!(thread.requester.transit.count(), 1);
            thread.requester.arrived(&mut told.connections[0].2);
            assert_eq!(thread.requester.transit.count(), 0);
        }
    }
}
