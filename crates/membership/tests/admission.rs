//! Handshakes and admission without sockets: ranks come to the coordinator in any order, some of whom are not to come in.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use syncline_membership::admission::Members;
use syncline_protocol::fault::Broken;
use syncline_protocol::handshake::{Acceptor, Authentication, Initiator, Key, Next, PROTOCOL, Role};
use syncline_protocol::machine::Machine;
use syncline_protocol::virtual_network::{End, Memory};

const WORLD: u32 = 3;

/// One side of a handshake.
#[derive(Debug)]
enum Side {
    Acceptor(Acceptor),
    Initiator(Initiator),
    /// Says something, and takes what comes.
    Stranger(Vec<u8>),
}

/// A handshake under way, and how it ended.
#[derive(Debug)]
struct Talk {
    side: Side,
    out: Vec<u8>,
    outcome: Option<Result<(), String>>,
}

impl Talk {
    fn take(&mut self, bytes: &[u8], members: Members, here: &mut BTreeSet<u32>) {
        if self.outcome.is_some() {
            return;
        }
        let next = match &mut self.side {
            Side::Stranger(heard) => {
                heard.extend(bytes);
                return;
            }
            Side::Acceptor(acceptor) => {
                let next = acceptor.received(bytes, |hello| {
                    members.admit(&hello.role, |rank| here.contains(&rank), |_| false)
                });
                if let (Ok(Next::Done(_)), Some(Role::Member { rank, .. })) = (&next, acceptor.role()) {
                    assert!(here.insert(*rank), "rank {rank} came in twice");
                }
                next.map_err(|(why, answer)| {
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

/// A process: whoever comes has one talk, the coordinator one with each.
#[derive(Debug)]
struct Process {
    talks: BTreeMap<u32, Talk>,
    members: Members,
    here: BTreeSet<u32>,
}

impl Machine for Process {
    fn waiting(&self, peer: u32) -> usize {
        self.talks[&peer].out.len()
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, _: usize) {
        slices.push(IoSlice::new(&self.talks[&peer].out));
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        self.talks.get_mut(&peer).unwrap().out.drain(..bytes);
    }

    fn reads(&self, _: u32) -> bool {
        true
    }

    fn direct(&mut self, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn read_directly(&mut self, _: u32, _: usize) -> Result<(), Broken> {
        unreachable!("there is no such place")
    }

    fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), Broken> {
        let Self { talks, members, here } = self;
        talks.get_mut(&peer).unwrap().take(bytes, *members, here);
        Ok(())
    }

    fn believe(&mut self, _: u32) {}

    fn beat(&mut self, _: u32) {}

    fn leave(&mut self, _: u32) {}

    fn has_left(&self, _: u32) -> bool {
        false
    }
}

/// Who comes.
#[derive(Clone, Debug)]
enum Guest {
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

fn guests() -> impl Strategy<Value = Guest> {
    prop_oneof![
        4 => (0..WORLD).prop_map(Guest::Rank),
        1 => (0..9u32).prop_filter("another", |world| *world != WORLD).prop_map(Guest::WorldOf),
        1 => Just(Guest::NoSuchRank),
        1 => (2..9u32).prop_map(Guest::Lanes),
        1 => Just(Guest::AnotherKey),
        1 => Just(Guest::NoKey),
        1 => Just(Guest::AnotherJob),
        1 => any::<u32>().prop_filter("another", |version| *version != PROTOCOL).prop_map(Guest::Version),
        1 => Just(Guest::NoMember),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Guest::Garbage),
    ]
}

fn key(byte: u8) -> Authentication {
    Authentication::Key(Key::new([byte; 32]))
}

impl Guest {
    fn talk(&self, nonce: u8) -> Talk {
        let role = |rank, world, lanes| Role::Member { rank, world, lanes };
        let come = |trust, job, role| {
            let (initiator, out) = Initiator::new(trust, job, role, [nonce; 32]);
            Talk { side: Side::Initiator(initiator), out, outcome: None }
        };
        let say = |out| Talk { side: Side::Stranger(Vec::new()), out, outcome: None };
        match self {
            Self::Rank(rank) => come(key(7), "job", role(*rank, WORLD, 1)),
            Self::WorldOf(world) => come(key(7), "job", role(0, *world, 1)),
            Self::NoSuchRank => come(key(7), "job", role(WORLD, WORLD, 1)),
            Self::Lanes(lanes) => come(key(7), "job", role(1, WORLD, *lanes)),
            Self::AnotherKey => come(key(8), "job", role(1, WORLD, 1)),
            Self::NoKey => come(Authentication::None, "job", role(1, WORLD, 1)),
            Self::AnotherJob => come(key(7), "other", role(1, WORLD, 1)),
            Self::NoMember => come(key(7), "job", Role::Visitor),
            Self::Version(version) => {
                let hello =
                    format!(r#"{{"name":"syncline","protocol":{version},"role":{{"is":"new","rank":1}}}}"#);
                say([&(hello.len() as u32).to_le_bytes(), hello.as_bytes()].concat())
            }
            Self::Garbage(bytes) => say(bytes.clone()),
        }
    }

    /// What it is told, unless it may come in.
    fn told(&self) -> Option<&'static str> {
        match self {
            Self::Rank(_) | Self::Garbage(_) => None,
            Self::WorldOf(_) => Some("ranks there meet 3 ranks here"),
            Self::NoSuchRank => Some("there is no rank 3 of 3"),
            Self::Lanes(_) => Some("lanes there meet 1 lanes here"),
            Self::AnotherKey => Some("does not have the key of this job"),
            Self::NoKey => Some("`none` there and `key` here"),
            Self::AnotherJob => Some("the job has another name here"),
            Self::NoMember => Some("only members join at the coordinator"),
            Self::Version(_) => Some("use the same version of syncline everywhere"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Fault: two processes of a rank, ranks of another world size, version, key, job or number of lanes, and strangers come, in any order -> each is told why it is refused, and one of each rank comes in
    #[test]
    fn each_rank_comes_in_once_and_others_are_told_why(
        guests in prop::collection::vec(guests(), 1..12), seed: u64, piece in 1usize..200,
    ) {
        let members = Members { world: WORLD, lanes: 1, elastic: false, begun: false };
        let process = |talks| Process { talks, members, here: BTreeSet::new() };
        let talks = (1..).zip(&guests).map(|(guest, _)| {
            let acceptor = Acceptor::new(key(7), Some("job"), [100 + guest as u8; 32]);
            (guest, Talk { side: Side::Acceptor(acceptor), out: Vec::new(), outcome: None })
        });
        let mut machines = vec![process(talks.collect())];
        machines.extend((1..).zip(&guests).map(|(number, guest)| process([(0, guest.talk(number))].into())));
        let cables: Vec<[End; 2]> = (1..=guests.len()).map(|guest| [(0, guest as u32), (guest, 0)]).collect();
        let mut network = Memory::new(machines, &cables, seed, piece);
        network.run().unwrap();
        let mut come = BTreeMap::new();
        for (number, guest) in (1usize..).zip(&guests) {
            let talk = &network.machine(number).talks[&0];
            let outcome = match (&talk.side, &talk.outcome) {
                (Side::Stranger(heard), _) => Some(Err(String::from_utf8_lossy(heard).into_owned())),
                (_, outcome) => outcome.clone(),
            };
            match (guest, outcome, guest.told()) {
                (Guest::Rank(rank), Some(Ok(())), _) => {
                    prop_assert_eq!(come.insert(*rank, number), None);
                }
                (Guest::Rank(rank), Some(Err(why)), _) => {
                    prop_assert_eq!(why, format!("refused: rank {rank} is here already"));
                }
                (_, Some(Err(why)), Some(told)) => prop_assert!(why.contains(told), "{guest:?}: {why}"),
                (Guest::Garbage(_), _, _) => {}
                (_, outcome, _) => prop_assert!(false, "{guest:?}: {outcome:?}"),
            }
        }
        let called = |rank: &u32| guests.iter().any(|guest| matches!(guest, Guest::Rank(other) if other == rank));
        let expected: BTreeSet<u32> = (0..WORLD).filter(called).collect();
        prop_assert_eq!(&network.machine(0).here, &expected);
        prop_assert_eq!(come.into_keys().collect::<BTreeSet<u32>>(), expected);
    }
}
