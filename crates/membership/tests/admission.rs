//! Handshakes and admission without sockets: valid ranks and others connect to the coordinator in any order.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use syncline_membership::admission::Members;
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::handshake::{
    Acceptor, Authentication, Initiator, Key, Next, PROTOCOL, Rejection, Role,
};
use syncline_protocol::machine::Machine;
use syncline_protocol::virtual_network::{End, VirtualNetwork};

const WORLD: u32 = 3;

/// One side of a handshake.
#[derive(Debug)]
enum Side {
    Acceptor(Acceptor),
    Initiator(Initiator),
    /// Sends bytes that are no handshake, and stores what it receives.
    UnknownClient(Vec<u8>),
}

/// One side of a connection, and how its handshake ended.
#[derive(Debug)]
struct Endpoint {
    side: Side,
    out: Vec<u8>,
    outcome: Option<Result<(), String>>,
}

impl Endpoint {
    fn receive(&mut self, bytes: &[u8], members: Members, here: &mut BTreeSet<u32>) {
        if self.outcome.is_some() {
            return;
        }
        let next = match &mut self.side {
            Side::UnknownClient(received) => {
                received.extend(bytes);
                return;
            }
            Side::Acceptor(acceptor) => {
                let next = acceptor.received(bytes, |hello| {
                    members.admit(&hello.role, |rank| here.contains(&rank), |_| false, |_, _| false)
                });
                if let (Ok(Next::Done(_)), Some(Role::Member { rank, .. })) = (&next, acceptor.role()) {
                    assert!(here.insert(*rank), "rank {rank} was admitted twice");
                }
                next.map_err(|Rejection { why, answer }| {
                    self.out.extend(answer);
                    why
                })
            }
            Side::Initiator(initiator) => initiator.received(bytes).map_err(|shut| shut.why),
        };
        match next {
            Ok(Next::Wait) => {}
            Ok(Next::Send(answer)) => self.out.extend(answer),
            Ok(Next::Done(answer)) => {
                self.out.extend(answer);
                self.outcome = Some(Ok(()));
            }
            Err(why) => self.outcome = Some(Err(why)),
        }
    }
}

/// A process: the coordinator has a connection to each client, and a client has one to the coordinator.
#[derive(Debug)]
struct Process {
    endpoints: BTreeMap<u32, Endpoint>,
    members: Members,
    here: BTreeSet<u32>,
}

impl Machine for Process {
    fn waiting(&self, peer: u32) -> usize {
        self.endpoints[&peer].out.len()
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, _: usize) {
        slices.push(IoSlice::new(&self.endpoints[&peer].out));
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        self.endpoints.get_mut(&peer).unwrap().out.drain(..bytes);
    }

    fn reads(&self, _: u32) -> bool {
        true
    }

    fn direct(&mut self, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn read_directly(&mut self, _: u32, _: usize) -> Result<(), ProtocolError> {
        unreachable!("`direct` returns no place")
    }

    fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), ProtocolError> {
        let Self { endpoints, members, here } = self;
        endpoints.get_mut(&peer).unwrap().receive(bytes, *members, here);
        Ok(())
    }

    fn disable_checksums(&mut self, _: u32) {}

    fn send_heartbeat(&mut self, _: u32) {}

    fn leave(&mut self, _: u32) {}

    fn has_left(&self, _: u32) -> bool {
        false
    }
}

/// A process that connects to the coordinator.
#[derive(Clone, Debug)]
enum Client {
    Rank(u32),
    WorldOf(u32),
    NoSuchRank,
    Lanes(u32),
    AnotherKey,
    NoKey,
    AnotherJob,
    Version(u32),
    NoMember,
    Garbage(Vec<u8>),
}

fn clients() -> impl Strategy<Value = Client> {
    prop_oneof![
        4 => (0..WORLD).prop_map(Client::Rank),
        1 => (0..9u32).prop_filter("another", |world| *world != WORLD).prop_map(Client::WorldOf),
        1 => Just(Client::NoSuchRank),
        1 => (2..9u32).prop_map(Client::Lanes),
        1 => Just(Client::AnotherKey),
        1 => Just(Client::NoKey),
        1 => Just(Client::AnotherJob),
        1 => any::<u32>().prop_filter("another", |version| *version != PROTOCOL).prop_map(Client::Version),
        1 => Just(Client::NoMember),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Client::Garbage),
    ]
}

fn key(byte: u8) -> Authentication {
    Authentication::Key(Key::new([byte; 32]))
}

impl Client {
    fn endpoint(&self, nonce: u8) -> Endpoint {
        let role = |rank, world, lanes| Role::Member { rank, world, lanes, coordinator: 0 };
        let join = |trust, job, role| {
            let (initiator, out) = Initiator::new(trust, job, role, [nonce; 32]);
            Endpoint { side: Side::Initiator(initiator), out, outcome: None }
        };
        let send = |out| Endpoint { side: Side::UnknownClient(Vec::new()), out, outcome: None };
        match self {
            Self::Rank(rank) => join(key(7), "job", role(*rank, WORLD, 1)),
            Self::WorldOf(world) => join(key(7), "job", role(0, *world, 1)),
            Self::NoSuchRank => join(key(7), "job", role(WORLD, WORLD, 1)),
            Self::Lanes(lanes) => join(key(7), "job", role(1, WORLD, *lanes)),
            Self::AnotherKey => join(key(8), "job", role(1, WORLD, 1)),
            Self::NoKey => join(Authentication::None, "job", role(1, WORLD, 1)),
            Self::AnotherJob => join(key(7), "other", role(1, WORLD, 1)),
            Self::NoMember => join(key(7), "job", Role::StatusClient),
            Self::Version(version) => {
                let hello =
                    format!(r#"{{"name":"syncline","protocol":{version},"role":{{"is":"new","rank":1}}}}"#);
                send([&(hello.len() as u32).to_le_bytes(), hello.as_bytes()].concat())
            }
            Self::Garbage(bytes) => send(bytes.clone()),
        }
    }

    /// A part of the reason that the process receives, if it is refused with one.
    fn refusal(&self) -> Option<&'static str> {
        match self {
            Self::Rank(_) | Self::Garbage(_) => None,
            Self::WorldOf(_) => Some("this job has 3 ranks, not"),
            Self::NoSuchRank => Some("rank 3 does not exist"),
            Self::Lanes(_) => Some("this job has 1 lanes, not"),
            Self::AnotherKey => Some("does not have the key of this job"),
            Self::NoKey => Some("with `none`, the accepting side with `key`"),
            Self::AnotherJob => Some("this process serves a job with a different name"),
            Self::NoMember => Some("only ranks may connect to the coordinator"),
            Self::Version(_) => Some("install the same release of syncline on both"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Fault: two processes of one rank, ranks of another world size, version, key, job or number of lanes, and strangers connect, in any order -> each that is refused gets the reason, and one process of each rank joins
    #[test]
    fn one_process_of_each_rank_joins_and_others_get_the_reason(
        clients in prop::collection::vec(clients(), 1..12), seed: u64, piece in 1usize..200,
    ) {
        let members = Members { world: WORLD, lanes: 1, elastic: false, begun: false };
        let process = |endpoints| Process { endpoints, members, here: BTreeSet::new() };
        let coordinators = (1..).zip(&clients).map(|(client, _)| {
            let acceptor = Acceptor::new(key(7), Some("job"), [100 + client as u8; 32]);
            (client, Endpoint { side: Side::Acceptor(acceptor), out: Vec::new(), outcome: None })
        });
        let mut machines = vec![process(coordinators.collect())];
        machines.extend((1..).zip(&clients).map(|(number, client)| process([(0, client.endpoint(number))].into())));
        let cables: Vec<[End; 2]> = (1..=clients.len()).map(|client| [(0, client as u32), (client, 0)]).collect();
        let mut network = VirtualNetwork::new(machines, &cables, seed, piece);
        network.run().unwrap();
        let mut joined = BTreeMap::new();
        for (number, client) in (1usize..).zip(&clients) {
            let endpoint = &network.machine(number).endpoints[&0];
            let outcome = match (&endpoint.side, &endpoint.outcome) {
                (Side::UnknownClient(received), _) => Some(Err(String::from_utf8_lossy(received).into_owned())),
                (_, outcome) => outcome.clone(),
            };
            match (client, outcome, client.refusal()) {
                (Client::Rank(rank), Some(Ok(())), _) => {
                    prop_assert_eq!(joined.insert(*rank, number), None);
                }
                (Client::Rank(rank), Some(Err(why)), _) => {
                    prop_assert_eq!(why, format!("refused: rank {rank} has already joined"));
                }
                (_, Some(Err(why)), Some(words)) => prop_assert!(why.contains(words), "{client:?}: {why}"),
                (Client::Garbage(_), _, _) => {}
                (_, outcome, _) => prop_assert!(false, "{client:?}: {outcome:?}"),
            }
        }
        let connected = |rank: &u32| clients.iter().any(|client| matches!(client, Client::Rank(other) if other == rank));
        let expected: BTreeSet<u32> = (0..WORLD).filter(connected).collect();
        prop_assert_eq!(&network.machine(0).here, &expected);
        prop_assert_eq!(joined.into_keys().collect::<BTreeSet<u32>>(), expected);
    }
}
