//! Communicators on threads and real sockets.

use crate::lending::Lent;
use mio::event::Event;
use mio::net::{TcpStream, UnixStream};
use mio::{Registry, Token};
use socket2::SockRef;
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_executor::Communicator;
use syncline_plan::by_name;
use syncline_protocol::fault::{Blame, FaultKind};
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::FlowControl;
use syncline_protocol::memory::{Buffer, Region};
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
use syncline_protocol::settings::Settings;
use syncline_protocol::wire::{FrameKind as Frame, Header};
use syncline_reduction::{Element, Reduction};
use syncline_transport::shared::Agreement;
use syncline_transport::socket::Stream;
use syncline_transport::{Connection, Halt, Intake, Transport};
use syncline_units::CollectiveKind;

/// How members are connected.
#[derive(Clone, Copy, Debug)]
enum Join {
    Tcp,
    Unix,
    Shared,
}

const JOINS: [Join; 3] = [Join::Tcp, Join::Unix, Join::Shared];

fn pair(join: Join) -> (Connection, Connection) {
    match join {
        Join::Unix => {
            let (a, b) = UnixStream::pair().unwrap();
            (Box::new(Stream::new(a)), Box::new(Stream::new(b)))
        }
        Join::Shared => {
            let (a, b) = UnixStream::pair().unwrap();
            let mut ends = (Agreement::offer(a, 16 << 10).unwrap(), Agreement::answer(b));
            assert!(ends.1.advance().unwrap() && ends.0.advance().unwrap());
            let ends = (ends.0.connection(), ends.1.connection());
            assert_eq!(ends.0.describe(), "shared memory");
            ends
        }
        Join::Tcp => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (b, _) = listener.accept().unwrap();
            let ready = |stream: std::net::TcpStream| -> Connection {
                stream.set_nonblocking(true).unwrap();
                stream.set_nodelay(true).unwrap();
                Box::new(Stream::new(TcpStream::from_std(stream)))
            };
            (ready(a), ready(b))
        }
    }
}

fn settings(lanes: u32) -> Settings {
    let patience = Patience { interval: Duration::from_millis(50), silence: Duration::from_secs(5) };
    Settings {
        flow: FlowControl { lanes, window: 256 << 10, ahead: 1 << 20 },
        patience,
        deadline: Duration::from_secs(20),
        polling: Duration::ZERO,
    }
}

/// Settings with callers that sleep, and with callers that poll.
fn sleeping_and_polling(lanes: u32) -> [Settings; 2] {
    [0, 2].map(|polling| Settings { polling: Duration::from_millis(polling), ..settings(lanes) })
}

/// Communicators of all members of a plan, with a connection between each two.
fn joined(name: &str, ranks: u32, join: Join, settings: Settings) -> Vec<Communicator> {
    let algorithm = by_name(name).unwrap();
    let members = algorithm.seats(ranks);
    let rules: Vec<Rule> =
        CollectiveKind::ALL.iter().map(|&kind| Rule::new(kind, Arc::clone(&algorithm), 16 << 10)).collect();
    let lanes = settings.flow.lanes;
    let mut ends: BTreeMap<(u32, u32, u32), Connection> = BTreeMap::new();
    for lane in 0..lanes {
        for (a, b) in (0..members).flat_map(|a| (a + 1..members).map(move |b| (a, b))) {
            let (one, other) = pair(join);
            ends.insert((a, lane, b), one);
            ends.insert((b, lane, a), other);
        }
    }
    let mut streams_of = |member| {
        let mut lane = |lane| (0..members).map(|peer| ends.remove(&(member, lane, peer))).collect();
        (0..lanes).map(&mut lane).collect()
    };
    (0..members)
        .map(|member| {
            let book =
                PlanBook::new(member, members, Selection::of((0..ranks).collect(), rules.clone())).unwrap();
            Communicator::new(Arc::new(book), settings, 0, streams_of(member)).unwrap()
        })
        .collect()
}

fn all_reduce(elements: u64) -> Operation {
    Operation {
        kind: CollectiveKind::AllReduce,
        elements,
        element: Element::I32,
        reduction: Reduction::Sum,
        root: 0,
        association: Association::Arrival,
    }
}

fn fill(buffer: &mut Buffer, rank: u32) {
    for (at, bytes) in (0i32..).zip(buffer.as_mut_slice().chunks_exact_mut(4)) {
        bytes.copy_from_slice(&(at.wrapping_mul(rank as i32 + 1)).to_ne_bytes());
    }
}

/// Whether a buffer holds the sum over ranks of what `fill` wrote.
fn is_sum(buffer: &mut Buffer, ranks: i32) -> bool {
    let factor = ranks * (ranks + 1) / 2;
    let mut values = (0i32..).zip(buffer.as_mut_slice().chunks_exact(4));
    values.all(|(at, bytes)| bytes == at.wrapping_mul(factor).to_ne_bytes())
}

fn region(buffers: &mut [Buffer], member: usize) -> Region {
    buffers.get_mut(member).map_or(Region::EMPTY, Lent::region)
}

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn all_reduces_over_real_sockets_give_the_sum() {
    for join in JOINS {
        for (name, ranks) in [
            ("ring", 4),
            ("halving_doubling", 5),
            ("two_level(group=2)", 4),
            ("parameter_server(placement=NCS, hubs=2)", 3),
        ] {
            for settings in [1, 3].into_iter().flat_map(sleeping_and_polling) {
                let members = joined(name, ranks, join, settings);
                for (elements, keep) in [(0u64, false), (1, true), (1_000_003, false), (1_000_003, true)] {
                    let mut buffers: Vec<Buffer> =
                        (0..ranks).map(|_| Buffer::new(4 * elements as usize)).collect();
                    (0..).zip(&mut buffers).for_each(|(rank, buffer)| fill(buffer, rank));
                    let pending: Vec<_> = members
                        .iter()
                        .enumerate()
                        .map(|(member, communicator)| {
                            let region = region(&mut buffers, member);
                            communicator.begin(&all_reduce(elements), region, region, keep).unwrap()
                        })
                        .collect();
                    for pending in pending {
                        assert_eq!(pending.wait(WAIT), Some(Ok(())), "{name}");
                    }
                    assert!(
                        buffers.iter_mut().all(|buffer| is_sum(buffer, ranks as i32)),
                        "{name} {elements}"
                    );
                }
            }
        }
    }
}

#[test]
fn many_operations_are_under_way_at_once() {
    for settings in sleeping_and_polling(2) {
        JOINS.into_iter().for_each(|join| many_operations(join, settings));
    }
}

fn many_operations(join: Join, settings: Settings) {
    let members = joined("direct", 3, join, settings);
    let mut buffers: Vec<Vec<Buffer>> =
        (0..200).map(|number| (0..3).map(|_| Buffer::new(4 * number * 10)).collect()).collect();
    let mut pending = Vec::new();
    for buffers in &mut buffers {
        for (rank, communicator) in (0u32..).zip(&members) {
            let buffer = &mut buffers[rank as usize];
            fill(buffer, rank);
            let region = buffer.region();
            pending.push(
                communicator.begin(&all_reduce(region.len() as u64 / 4), region, region, false).unwrap(),
            );
        }
    }
    for pending in pending {
        assert_eq!(pending.wait(WAIT), Some(Ok(())));
    }
    assert!(buffers.iter_mut().flatten().all(|buffer| is_sum(buffer, 3)));
}

/// All of a member's callers may poll at the same time, or none: its operations end in either case.
#[test]
fn operations_end_whether_callers_poll_or_not() {
    const EACH: usize = 200;
    for (join, lanes) in [(Join::Tcp, 1), (Join::Tcp, 2), (Join::Shared, 1)] {
        let [_, polling] = sleeping_and_polling(lanes);
        let members = joined("ring", 3, join, polling);
        let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(4)).collect();
        buffers.iter_mut().for_each(|buffer| buffer.as_mut_slice().copy_from_slice(&1i32.to_ne_bytes()));
        std::thread::scope(|scope| {
            for (member, buffer) in members.iter().zip(&mut buffers) {
                let region = buffer.region();
                scope.spawn(move || {
                    for number in 0..EACH {
                        // Nobody waits for the first one, until the second one is over.
                        let first = member.begin(&all_reduce(0), Region::EMPTY, Region::EMPTY, true).unwrap();
                        let second = member.begin(&all_reduce(1), region, region, true).unwrap();
                        let (ended, end) = std::sync::mpsc::channel();
                        match number % 3 {
                            0 => second.then(move |outcome| ended.send(outcome).unwrap()),
                            1 => ended.send(second.wait(WAIT).unwrap()).unwrap(),
                            _ => std::thread::scope(|scope| {
                                let other = second.clone();
                                scope.spawn(move || assert_eq!(other.wait(WAIT), Some(Ok(()))));
                                ended.send(second.wait(WAIT).unwrap()).unwrap();
                            }),
                        }
                        assert_eq!(end.recv_timeout(WAIT), Ok(Ok(())));
                        assert_eq!(first.wait(WAIT), Some(Ok(())));
                    }
                });
            }
        });
        // Each operation makes three times as much of what all ranks have.
        let expected = 3i32.wrapping_pow(EACH as u32).to_ne_bytes();
        assert!(buffers.iter().all(|buffer| buffer.as_slice() == expected));
        drop(members);
    }
}

#[test]
fn a_member_that_left_fails_the_operations_that_need_it() {
    JOINS.into_iter().for_each(a_member_leaves);
}

fn a_member_leaves(join: Join) {
    let mut members = joined("ring", 3, join, settings(1));
    drop(members.pop());
    std::thread::sleep(Duration::from_millis(300));
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(4000)).collect();
    let mut outcomes = Vec::new();
    for (member, communicator) in members.iter().enumerate() {
        fill(&mut buffers[member], member as u32);
        let region = region(&mut buffers, member);
        outcomes.push(communicator.begin(&all_reduce(1000), region, region, true).unwrap());
    }
    // Without a coordinator each member decides by itself, and the second may only see that the first has
    // given up.
    let faults: Vec<_> = outcomes.iter().map(|outcome| outcome.wait(WAIT).unwrap().unwrap_err()).collect();
    assert_eq!((faults[0].blame, faults[0].trouble.kind), (Blame::Rank(2), FaultKind::Left), "{}", faults[0]);
    for (rank, buffer) in (0u32..).zip(&mut buffers) {
        let mut before = Buffer::new(4000);
        fill(&mut before, rank);
        assert_eq!(buffer.as_mut_slice(), before.as_mut_slice());
    }
}

/// One of two members, with its connection to the other. They run all-reduces as a ring, and broadcasts.
fn one_of_two(member: u32, connection: Connection, settings: Settings) -> Communicator {
    let rule = |kind, name| Rule::new(kind, by_name(name).unwrap(), 16 << 10);
    let rules = vec![rule(CollectiveKind::AllReduce, "ring"), rule(CollectiveKind::Broadcast, "direct")];
    let book = PlanBook::new(member, 2, Selection::of(vec![0, 1], rules)).unwrap();
    let connections = if member == 0 { vec![None, Some(connection)] } else { vec![Some(connection), None] };
    Communicator::new(Arc::new(book), settings, 0, vec![connections]).unwrap()
}

/// Two members, each with its end of a connection.
fn between(first: Connection, second: Connection, settings: Settings) -> [Communicator; 2] {
    [one_of_two(0, first, settings), one_of_two(1, second, settings)]
}

/// The first of two members, and the other end of its connection.
fn half(join: Join, settings: Settings) -> (Communicator, Connection) {
    let (ours, theirs) = pair(join);
    (one_of_two(0, ours, settings), theirs)
}

/// Fault: a rank begins a different operation and leaves -> a rank that needs it gets an error with both operations, at once
#[test]
fn a_rank_that_began_a_different_operation_and_left_is_named_with_both_operations() {
    for join in JOINS {
        for gone in [false, true] {
            let mut members = joined("ring", 2, join, settings(2));
            let mut buffers = [Buffer::new(400_000), Buffer::new(400_004)];
            buffers.iter_mut().for_each(|buffer| fill(buffer, 0));
            let other = region(&mut buffers, 1);
            let theirs = members[1].begin(&all_reduce(100_001), other, other, true).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            if gone {
                drop(members.pop());
                std::thread::sleep(Duration::from_millis(300));
            }
            let region = region(&mut buffers, 0);
            let began = Instant::now();
            let pending = members[0].begin(&all_reduce(100_000), region, region, true).unwrap();
            let fault = pending.wait(WAIT).unwrap().unwrap_err();
            assert!(began.elapsed() < Duration::from_secs(2), "{join:?}: {fault}");
            assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(1), FaultKind::Differs), "{fault}");
            let text = fault.to_string();
            assert!(text.contains("100000 i32") && text.contains("100001 i32"), "{text}");
            assert!(theirs.wait(WAIT).unwrap().is_err());
            for buffer in &mut buffers {
                let mut before = Buffer::new(buffer.as_slice().len());
                fill(&mut before, 0);
                assert_eq!(buffer.as_slice(), before.as_slice());
            }
        }
    }
}

/// Fault: a lane's thread panics, which is a bug -> the operation fails, and its input is restored
#[test]
fn a_lane_that_panics_restores_inputs() {
    sleeping_and_polling(1).into_iter().for_each(a_lane_panics);
}

fn a_lane_panics(settings: Settings) {
    let (ours, theirs) = pair(Join::Tcp);
    let members = between(Box::new(Faulty { connection: ours, left: 200_000 }), theirs, settings);
    let mut buffers = [Buffer::new(400_000), Buffer::new(400_000)];
    buffers.iter_mut().for_each(|buffer| fill(buffer, 1));
    let regions = [region(&mut buffers, 0), region(&mut buffers, 1)];
    let begin = |member: usize| {
        members[member].begin(&all_reduce(100_000), regions[member], regions[member], true).unwrap()
    };
    let pending = [begin(0), begin(1)];
    let fault = pending[0].wait(WAIT).unwrap().unwrap_err();
    assert_eq!(fault.blame, Blame::Rank(0), "{fault}");
    assert!(fault.to_string().contains("a bug in syncline"), "{fault}");
    let fault = pending[1].wait(WAIT).unwrap().unwrap_err();
    assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(0), FaultKind::Closed), "{fault}");
    let mut before = Buffer::new(400_000);
    fill(&mut before, 1);
    assert!(buffers.iter().all(|buffer| buffer.as_slice() == before.as_slice()));
}

/// A connection that panics once it has received `left` bytes.
#[derive(Debug)]
struct Faulty {
    connection: Connection,
    left: usize,
}

impl Transport for Faulty {
    fn describe(&self) -> String {
        self.connection.describe()
    }

    fn watch(&mut self, registry: &Registry, token: Token) -> std::io::Result<()> {
        self.connection.watch(registry, token)
    }

    fn unwatch(&mut self, registry: &Registry) -> std::io::Result<()> {
        self.connection.unwatch(registry)
    }

    fn note_event(&mut self, event: &Event) {
        self.connection.note_event(event);
    }

    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt> {
        let read = self.connection.receive(intake)?;
        self.left = self.left.checked_sub(read).expect("a test");
        Ok(read)
    }

    fn send(&mut self, slices: &[IoSlice<'_>]) -> std::io::Result<usize> {
        self.connection.send(slices)
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.connection.finish()
    }
}

/// Fault: a rank leaves while bytes that it sent are still under way on a slow network -> all of them arrive
#[test]
fn a_leaving_rank_waits_until_its_last_bytes_are_received() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // Large send buffer, small receive buffer.
    SockRef::from(&listener).set_recv_buffer_size(64 << 10).unwrap();
    let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    SockRef::from(&ours).set_send_buffer_size(4 << 20).unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = Box::new(Stream::new(TcpStream::from_std(ours)));
    let member = one_of_two(0, ours, settings(1));
    let mut buffer = Buffer::new(2 << 20);
    let region = buffer.region();
    let broadcast = Operation { kind: CollectiveKind::Broadcast, ..all_reduce(region.len() as u64 / 4) };
    let pending = member.begin(&broadcast, region, region, false).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut all, mut bytes, mut beats) = (0, vec![0; 32 << 10], 0);
        loop {
            // A network of 2 MB/s, on which this side sends heartbeats.
            let beat = Header { kind: Frame::Heartbeat, epoch: 0, sequence: 0, chunk: 0 }.encode(beats, &[]);
            _ = theirs.write_all(&beat);
            beats += 1;
            match theirs.read(&mut bytes) {
                Ok(0) => return all,
                Ok(read) => all += read,
                Err(error) => panic!("{error} after {all} bytes"),
            }
            std::thread::sleep(Duration::from_millis(16));
        }
    });
    assert_eq!(pending.wait(WAIT), Some(Ok(())), "all is written");
    let began = Instant::now();
    drop(member);
    assert!(reader.join().unwrap() > region.len());
    assert!(began.elapsed() > Duration::from_millis(400), "it returned too early: {:?}", began.elapsed());
}

#[test]
fn a_leaving_rank_does_not_wait_for_a_peer_that_receives_nothing() {
    for join in JOINS {
        let patience = Patience { interval: Duration::from_millis(50), silence: Duration::from_millis(400) };
        let (member, peer) = half(join, Settings { patience, ..settings(1) });
        let mut buffer = Buffer::new(8 << 20);
        let region = buffer.region();
        let pending = member.begin(&all_reduce(2 << 20), region, region, false).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        drop(member);
        assert!(began.elapsed() < Duration::from_secs(2), "{join:?}: {:?}", began.elapsed());
        assert!(pending.wait(WAIT).unwrap().is_err());
        drop(peer);
    }
}

/// Fault: a whole frame arrives twice -> that link is named
#[test]
fn a_replayed_frame_is_reported_as_corruption() {
    for join in JOINS {
        let (member, mut peer) = half(join, settings(1));
        let mut buffers = [Buffer::new(4000)];
        let region = region(&mut buffers, 0);
        let pending = member.begin(&all_reduce(1000), region, region, true).unwrap();
        let beat = Header { kind: Frame::Heartbeat, epoch: 0, sequence: 0, chunk: 0 };
        let frames = [beat.encode(0, &[]), beat.encode(1, &[]), beat.encode(1, &[])];
        peer.send(&frames.each_ref().map(|frame| IoSlice::new(frame))).unwrap();
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::link(0, 1), FaultKind::Corrupt), "{fault}");
    }
}

/// Fault: a message stops in the middle while its sender's heartbeats go on -> that link is named, as quickly as a silent one
#[test]
fn a_message_that_stops_in_the_middle_is_found_while_heartbeats_go_on() {
    for join in JOINS {
        let patience = Patience { interval: Duration::from_millis(50), silence: Duration::from_millis(400) };
        let (member, mut peer) = half(join, Settings { patience, ..settings(1) });
        let mut buffers = [Buffer::new(400_000)];
        let region = region(&mut buffers, 0);
        let pending = member.begin(&all_reduce(100_000), region, region, true).unwrap();
        // The peer announces the same operation: send the announcement back, then a message that does not
        // end.
        std::thread::sleep(Duration::from_millis(100));
        let mut received = Received::default();
        while received.0.len() < 64 {
            assert!(peer.receive(&mut received).is_ok_and(|read| read > 0));
        }
        let begin = received.0.chunks_exact(16).position(|frame| frame[..2] == [0, 0xff]).unwrap() * 16;
        let asked = &received.0[begin + 16..begin + 48];
        let header = |kind| Header { kind, epoch: 0, sequence: 1, chunk: 0 };
        let began = Instant::now();
        let begin = header(Frame::Begin).encode(0, asked);
        let message = header(Frame::Message(0)).encode(1, &[]);
        peer.send(&[IoSlice::new(&begin), IoSlice::new(asked), IoSlice::new(&message)]).unwrap();
        let fault = loop {
            if let Some(outcome) = pending.wait(Duration::from_millis(50)) {
                break outcome.unwrap_err();
            }
            let beat = Header { kind: Frame::Heartbeat, epoch: 0, sequence: 0, chunk: 0 }.encode(2, &[]);
            _ = peer.send(&[IoSlice::new(&beat)]);
        };
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::link(0, 1), FaultKind::Silent), "{fault}");
        assert!(fault.to_string().contains("in the middle of a message"), "{fault}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}

/// The bytes that a connection has received.
#[derive(Default)]
struct Received(Vec<u8>);

impl Intake for Received {
    fn fill(
        &mut self,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> std::io::Result<usize>,
    ) -> Result<usize, Halt> {
        let mut bytes = [0; 4096];
        let read = read(&mut [IoSliceMut::new(&mut bytes)])?;
        self.0.extend(&bytes[..read]);
        Ok(read)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        self.0.extend(bytes);
        Ok(())
    }
}

/// Fault: a connection ends in the middle of a frame -> the rank at its other end is named, at once
#[test]
fn a_peer_that_dies_in_the_middle_of_a_frame_is_found_at_once() {
    for (join, settings) in
        JOINS.into_iter().flat_map(|join| sleeping_and_polling(1).map(|each| (join, each)))
    {
        let (member, mut peer) = half(join, settings);
        let mut buffers = [Buffer::new(400_000)];
        let region = region(&mut buffers, 0);
        let pending = member.begin(&all_reduce(100_000), region, region, true).unwrap();
        peer.send(&[IoSlice::new(&[0; 7])]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let died = Instant::now();
        drop(peer);
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(1), FaultKind::Closed), "{fault}");
        assert!(died.elapsed() < Duration::from_secs(1));
    }
}

/// Fault: garbage arrives on a connection -> that link is named
#[test]
fn garbage_is_reported_as_corruption() {
    for join in JOINS {
        let (member, mut peer) = half(join, settings(1));
        let mut buffers = [Buffer::new(4000)];
        let region = region(&mut buffers, 0);
        let pending = member.begin(&all_reduce(1000), region, region, true).unwrap();
        peer.send(&[IoSlice::new(&[0xee; 1000])]).unwrap();
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::link(0, 1), FaultKind::Corrupt), "{fault}");
    }
}

/// Fault: a peer goes silent, over TCP, Unix sockets or shared memory -> it is found by its silence
#[test]
fn a_peer_that_goes_silent_is_found_over_any_transport() {
    for join in JOINS {
        let patience = Patience { interval: Duration::from_millis(50), silence: Duration::from_millis(400) };
        let (member, mut peer) = half(join, Settings { patience, ..settings(1) });
        let mut buffers = [Buffer::new(4000)];
        let region = region(&mut buffers, 0);
        let pending = member.begin(&all_reduce(1000), region, region, true).unwrap();
        // One heartbeat, and nothing more.
        let beat = Header { kind: Frame::Heartbeat, epoch: 0, sequence: 0, chunk: 0 }.encode(0, &[]);
        peer.send(&[IoSlice::new(&beat)]).unwrap();
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!(fault.trouble.kind, FaultKind::Silent, "{fault}");
        drop(peer);
    }
}

/// Fault: a rank never begins an operation -> it fails on the others at the deadline
#[test]
fn a_member_that_never_begins_is_found_by_the_deadline() {
    let settings = Settings { deadline: Duration::from_millis(500), ..settings(1) };
    let members = joined("ring", 2, Join::Unix, settings);
    let mut buffers = [Buffer::new(4000)];
    let region = region(&mut buffers, 0);
    let began = Instant::now();
    let fault =
        members[0].begin(&all_reduce(1000), region, region, false).unwrap().wait(WAIT).unwrap().unwrap_err();
    assert_eq!(fault.trouble.kind, FaultKind::Deadline, "{fault}");
    assert!(began.elapsed() < Duration::from_secs(5));
    let again = members[0].begin(&all_reduce(1000), region, region, false).unwrap().wait(WAIT).unwrap();
    assert!(again.is_err());
}

#[test]
fn wrong_lengths_are_refused_before_anything_begins() {
    let members = joined("ring", 2, Join::Unix, settings(1));
    let mut buffers = [Buffer::new(4000)];
    let region = region(&mut buffers, 0);
    let error = members[0].begin(&all_reduce(1001), region, region, false).unwrap_err();
    assert_eq!(error.0[0].found.as_deref(), Some("4000 bytes"));
    let odd = Operation { kind: CollectiveKind::ReduceScatter, ..all_reduce(999) };
    let error = members[0].begin(&odd, region, region, false).unwrap_err();
    assert!(error.0[0].message.contains("must be a multiple of the number of ranks"), "{error:?}");
}

#[test]
fn a_buffer_holds_its_input_or_the_sum_whenever_a_rank_leaves() {
    for round in 0..60 {
        let mut members = joined("ring", 3, JOINS[round as usize % 3], settings(3));
        let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(4 * 300_000)).collect();
        let mut pending = Vec::new();
        for (rank, (member, buffer)) in (0u32..).zip(members.iter().zip(&mut buffers)) {
            fill(buffer, rank);
            let region = buffer.region();
            pending.push(member.begin(&all_reduce(300_000), region, region, true).unwrap());
        }
        // A rank leaves during the operation, later in each round.
        std::thread::sleep(Duration::from_micros(300 * round));
        drop(members.remove(2));
        for (rank, (pending, buffer)) in (0u32..).zip(pending.into_iter().zip(&mut buffers)) {
            let sum = is_sum(buffer_after(&pending, buffer), 3);
            let mut input = Buffer::new(4 * 300_000);
            fill(&mut input, rank);
            let kept = buffer.as_mut_slice() == input.as_mut_slice();
            match pending.outcome() {
                Some(Ok(())) => assert!(sum, "rank {rank} in round {round}"),
                Some(Err(_)) => assert!(kept, "rank {rank} in round {round}"),
                None => panic!("the operation is not over"),
            }
        }
    }
}

/// A buffer once its operation is over.
fn buffer_after<'a>(pending: &syncline_executor::pending::Pending, buffer: &'a mut Buffer) -> &'a mut Buffer {
    assert!(pending.wait(WAIT).is_some());
    buffer
}

#[test]
fn overlapping_input_and_output_are_refused_except_in_place() {
    let mut buffers = [Buffer::new(8000)];
    let members = joined("ring", 2, Join::Unix, settings(1));
    let whole = region(&mut buffers, 0);
    let error =
        members[0].begin(&all_reduce(1000), whole.part(0..4000), whole.part(2000..6000), false).unwrap_err();
    assert!(error.0[0].message.contains("overlap"));
    let gather = Operation { kind: CollectiveKind::AllGather, ..all_reduce(1000) };
    assert!(members[0].begin(&gather, whole.part(2000..4000), whole.part(0..4000), false).is_err());
    assert!(members[0].begin(&gather, whole.part(0..2000), whole.part(0..4000), false).is_ok());
}

#[test]
fn memory_in_use_is_refused_to_operations_that_would_write_it() {
    let members = joined("ring", 2, Join::Unix, settings(1));
    let mut buffers = [Buffer::new(8000), Buffer::new(8000)];
    let (here, there) = (region(&mut buffers, 0), region(&mut buffers, 1));
    let first = members[0].begin(&all_reduce(1000), here.part(0..4000), here.part(0..4000), false).unwrap();
    let error = members[0].begin(&all_reduce(1000), here.part(2000..6000), there.part(0..4000), false);
    let error = &error.unwrap_err().0[0];
    assert!(
        error.message.contains("(operation 2) is in use by all_reduce of 1000 i32 (sum) (operation 1)"),
        "{error:?}"
    );
    assert!(error.help.iter().any(|help| help.contains("wait for operation 1")), "{error:?}");
    let second =
        members[0].begin(&all_reduce(1000), here.part(4000..8000), here.part(4000..8000), false).unwrap();
    for half in [0..4000, 4000..8000] {
        members[1].begin(&all_reduce(1000), there.part(half.clone()), there.part(half), false).unwrap();
    }
    assert!([first, second].into_iter().all(|pending| pending.wait(WAIT) == Some(Ok(()))));
    // Operations may share memory that both only read.
    let broadcast = Operation { kind: CollectiveKind::AllGather, ..all_reduce(1000) };
    for part in [0..4000, 4000..8000] {
        members[0].begin(&broadcast, there.part(0..2000), here.part(part), false).unwrap();
    }
    drop(members);
}

#[test]
fn operations_beyond_those_that_frames_can_number_are_refused() {
    let members = joined("ring", 2, Join::Unix, settings(1));
    let mut buffers = [Buffer::new(4 << 14), Buffer::new(4 << 14)];
    let (here, there) = (region(&mut buffers, 0), region(&mut buffers, 1));
    let part = |number: usize| 4 * number..4 * number + 4;
    let mut all = Vec::new();
    for number in 0..1 << 14 {
        let own = here.part(part(number));
        all.push(members[0].begin(&all_reduce(1), own, own, false).unwrap());
    }
    let mut more = Buffer::new(4);
    let error = members[0].begin(&all_reduce(1), more.region(), more.region(), false).unwrap_err();
    assert!(error.0[0].message.starts_with("operation 1 is still under way"), "{error:?}");
    assert!(error.0[0].help.iter().any(|help| help.contains("wait for operation 1")), "{error:?}");
    for number in 0..1 << 14 {
        let own = there.part(part(number));
        all.push(members[1].begin(&all_reduce(1), own, own, false).unwrap());
    }
    assert!(all.iter().all(|pending| pending.wait(WAIT) == Some(Ok(()))));
    drop(members);
}

#[test]
fn a_rank_that_hears_nobody_reports_that_it_is_cut_off() {
    let patience = Patience { interval: Duration::from_millis(100), silence: Duration::from_millis(500) };
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..2).map(|_| pair(Join::Tcp)).unzip();
    let rule = Rule::new(CollectiveKind::AllReduce, by_name("ring").unwrap(), 16 << 10);
    let book = PlanBook::new(2, 3, Selection::of(vec![0, 1, 2], vec![rule])).unwrap();
    let connections = vec![ours.into_iter().map(Some).chain([None]).collect()];
    let settings = Settings { patience, ..settings(1) };
    let member = Communicator::new(Arc::new(book), settings, 0, connections).unwrap();
    let mut buffers = [Buffer::new(4000)];
    let region = region(&mut buffers, 0);
    let pending = member.begin(&all_reduce(1000), region, region, true).unwrap();
    let beat = Header { kind: Frame::Heartbeat, epoch: 0, sequence: 0, chunk: 0 }.encode(0, &[]);
    let mut peers = theirs;
    for peer in &mut peers {
        peer.send(&[IoSlice::new(&beat)]).unwrap();
    }
    let fault = pending.wait(WAIT).unwrap().unwrap_err();
    assert_eq!(fault.blame, Blame::Rank(2), "{fault}");
    assert!(
        fault.to_string().starts_with(
            "rank 2 receives nothing from any peer: its network is down, or all others have ended"
        ),
        "{fault}"
    );
}

#[test]
fn a_peer_that_left_before_its_connection_broke_counts_as_left() {
    for join in JOINS {
        let (member, mut peer) = half(join, settings(1));
        let mut buffers = [Buffer::new(40_000_000)];
        let region = region(&mut buffers, 0);
        let leave = Header { kind: Frame::Leave, epoch: 0, sequence: 0, chunk: 0 }.encode(0, &[]);
        peer.send(&[IoSlice::new(&leave)]).unwrap();
        // The peer has unread bytes, so a transport that knows resets sends one.
        let pending = member.begin(&all_reduce(10_000_000), region, region, true).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        drop(peer);
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(1), FaultKind::Left), "{fault}");
    }
}
