//! Connectors of two members in one thread, one step at a time.

use super::*;
use crate::listeners::listen;
use crate::member_settings::MESH;
use crate::message::EpochMember;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use syncline_protocol::handshake::{Acceptor, Next};
use syncline_transport::trust::Trust;

/// Members of an epoch that listen, and share memory if `shared`.
pub(crate) fn members(world: u32, lanes: u32, shared: bool) -> Vec<(MemberSettings, Arc<Roster>, Listeners)> {
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let member = |rank| MemberSettings {
        rank,
        world,
        job: "test".to_owned(),
        trust: Trust::Everybody,
        coordinator: vec![SocketAddr::new(host, 1)],
        coordinator_rank: 0,
        interfaces: vec![host.into()],
        ports: None,
        wait: Duration::from_secs(10),
        shared_memory: shared,
        pin: false,
        mesh: MESH,
        elastic: false,
        congestion: None,
    };
    let all: Vec<MemberSettings> = (0..world).map(member).collect();
    let listeners: Vec<Listeners> = all.iter().map(|member| listen(member, lanes, &[]).unwrap()).collect();
    let members = all.iter().zip(&listeners);
    let members =
        members.map(|(member, here)| EpochMember { rank: member.rank, listens: here.listens.clone() });
    let roster = Arc::new(Roster { epoch: 0, members: members.collect() });
    all.into_iter().zip(listeners).map(|(member, here)| (member, Arc::clone(&roster), here)).collect()
}

const PATIENCE: Duration = Duration::from_millis(300);

fn connectors(lanes: u32, shared: bool) -> Vec<LaneConnector> {
    let all = members(2, lanes, shared).into_iter();
    all.map(|(member, roster, here)| LaneConnector::new(&member, &roster, here, PATIENCE).unwrap()).collect()
}

/// Does what is to be done at this moment. Returns the lanes that were connected, and their transports.
fn step(connector: &mut LaneConnector) -> Vec<(u32, String)> {
    let made = connector.advance_until(&mut Events::with_capacity(64), Some(Duration::ZERO)).unwrap();
    made.into_iter().map(|(peer, connection)| (peer.lane, connection.describe())).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_comes_from_the_given_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own: IpAddr = "127.0.0.2".parse().unwrap();
    let stream = dial_from(own, listener.local_addr().unwrap()).unwrap();
    assert_eq!(listener.accept().unwrap().1.ip(), own);
    drop(stream);
    // This host does not have this address.
    assert!(dial_from("192.0.2.1".parse().unwrap(), listener.local_addr().unwrap()).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn members_that_connect_to_each_other_at_once_share_memory_on_all_lanes() {
    let mut both = connectors(2, true);
    let lane = |rank, lane| PeerLane { rank, lane };
    let mut made = [Vec::new(), Vec::new()];
    let mut turn = |both: &mut Vec<LaneConnector>, of: usize| made[of].extend(step(&mut both[of]));
    // The lower one has sent its hello when the higher one begins to connect, too, and so refuses the lower one.
    both[0].want(lane(1, 0), Duration::ZERO);
    [0, 0, 1].into_iter().for_each(|of| turn(&mut both, of));
    both[1].want(lane(0, 0), Duration::ZERO);
    [1, 0, 1, 0].into_iter().for_each(|of| turn(&mut both, of));
    assert_eq!(both[0].dials.tries(lane(1, 0)), 1, "it was refused");
    [1, 0].repeat(8).into_iter().for_each(|of| turn(&mut both, of));
    both[0].want(lane(1, 1), Duration::ZERO);
    [1, 0].repeat(8).into_iter().for_each(|of| turn(&mut both, of));
    let shared = |lane| (lane, "shared memory".to_owned());
    assert_eq!(made[0], [shared(0), shared(1)]);
    assert_eq!(made[0], made[1]);
}

#[test]
fn a_member_that_gets_no_answer_to_its_proof_tries_again() {
    let (member, roster, here) = members(2, 1, false).remove(0);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut all = roster.members.clone();
    all[1].listens.lanes = vec![listener.local_addr().unwrap()];
    let roster = Arc::new(Roster { epoch: 0, members: all });
    let mut connector = LaneConnector::new(&member, &roster, here, PATIENCE).unwrap();
    connector.longest_wait = Duration::from_millis(100);
    connector.want(PeerLane { rank: 1, lane: 0 }, Duration::ZERO);
    step(&mut connector);
    // The other side receives the proof, and its answer is lost.
    let half_open = listener.accept().unwrap().0;
    half_open.set_nonblocking(true).unwrap();
    let mut acceptor = Acceptor::new(member.trust.authentication(), Some("test"), [0; 32]);
    let (began, mut proved, mut ended) = (Instant::now(), false, false);
    while !ended {
        assert!(began.elapsed() < Duration::from_secs(20));
        assert!(step(&mut connector).is_empty() && connector.overdue().is_empty());
        let mut bytes = vec![0; acceptor.wants().max(1)];
        match (&half_open).read(&mut bytes) {
            Ok(0) => ended = true,
            Ok(read) => match acceptor.received(&bytes[..read], |_| Ok(())).unwrap() {
                Next::Send(answer) => (&half_open).write_all(&answer).unwrap(),
                Next::Done(_) => proved = true,
                Next::Wait => {}
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => ended = true,
        }
    }
    assert!(proved);
    // It tries again, and if that gets no answer either, it says so.
    listener.set_nonblocking(true).unwrap();
    while listener.accept().is_err() {
        assert!(began.elapsed() < Duration::from_secs(20));
        step(&mut connector);
    }
}

#[test]
fn as_many_members_as_there_are_may_connect_at_once() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if !allowed.trim().parse().is_ok_and(|allowed: usize| allowed >= 1000) {
        return;
    }
    let (_, _, here) = members(1, 1, false).remove(0);
    // The member is busy with something else.
    let connect =
        || std::net::TcpStream::connect_timeout(&here.listens.lanes[0], Duration::from_millis(500)).unwrap();
    let all: Vec<std::net::TcpStream> = (0..300).map(|_| connect()).collect();
    assert_eq!(all.len(), 300);
}

#[test]
fn a_member_that_can_open_no_sockets_blames_itself() {
    let short = std::io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    let mut connector = connectors(1, false).remove(0);
    let target = PeerLane { rank: 1, lane: 0 };
    connector.want(target, Duration::ZERO);
    assert_eq!(connector.dials.due(Duration::from_secs(1)), [target]);
    let why = connector.lacks_sockets(&short);
    connector.retry(target, why);
    std::thread::sleep(PATIENCE + Duration::from_millis(50));
    assert!(connector.overdue().is_empty(), "the other side is not at fault");
    let trouble = connector.exhausted().unwrap();
    assert!(trouble.what.contains("ulimit -n") && trouble.what.contains("Too many open files"), "{trouble}");
    // It can again.
    step(&mut connector);
    assert!(connector.exhausted().is_none() && connector.overdue().is_empty());
}

#[test]
fn connections_after_one_that_has_ended_are_accepted() {
    use std::io::Error;
    let accepted = |outcomes: Vec<Result<u32, Error>>| {
        let (mut outcomes, mut all) = (outcomes.into_iter(), Vec::new());
        let next = || outcomes.next().unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()));
        let short = accept_waiting(10, next, |socket| all.push(socket));
        (all, short.is_some())
    };
    let short = || Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    assert_eq!(accepted(vec![Ok(1), Err(ErrorKind::ConnectionAborted.into()), Ok(2)]), (vec![1, 2], false));
    assert_eq!(accepted(vec![Ok(1), Err(short()), Ok(2)]), (vec![1], true));
}
