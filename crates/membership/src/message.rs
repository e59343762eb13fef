//! The messages between members and the coordinator.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use syncline_protocol::fault::{Blame, Trouble};

/// How far a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The newest operation that it has begun.
    pub begun: u64,
    /// How many of them are over.
    pub over: u64,
}

/// Where a member listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listens {
    /// An address of each lane.
    pub lanes: Vec<SocketAddr>,
    /// The abstract name of a Unix socket, for members that may share memory with it: those who can reach it are on the same
    /// machine, in the same network namespace.
    #[serde(default)]
    pub door: Option<String>,
    /// What tells its machine from others.
    #[serde(default)]
    pub machine: Option<String>,
}

/// What a member says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Up {
    /// The member listens here. It is the first thing that a member says.
    Listens(Listens),
    /// A sign of life.
    Alive,
    /// Something is wrong with a peer, as it seems from here, or with the member itself.
    Trouble {
        /// The peer, or the member that says so.
        peer: u32,
        /// What.
        trouble: Trouble,
    },
    /// An operation takes too long.
    Late {
        /// Its group; 0 is all members.
        group: u64,
        /// The ranks of the group.
        ranks: Vec<u32>,
        /// Its number in the group.
        sequence: u64,
        /// How long, said of whoever holds it up.
        trouble: Trouble,
    },
    /// The answer to a roll call.
    Here {
        /// Which roll call.
        call: u64,
        /// How far the member is.
        progress: Progress,
        /// Ranks from which something has come of late.
        hears: Vec<u32>,
    },
    /// The member does not hear the coordinator any more, and gives up. Where the coordinator hears that, nothing goes through
    /// from the coordinator to the member.
    Deaf {
        /// Ranks from which something has come of late.
        hears: Vec<u32>,
        /// The coordinator's silence.
        trouble: Trouble,
    },
    /// The member has ended this epoch, asks for the next one, and listens here then. It would wait so long, in milliseconds,
    /// for ranks that were lost.
    Again {
        /// Where it listens.
        listens: Listens,
        /// How long it would wait.
        patience_ms: u64,
    },
    /// The member leaves, and that is no fault.
    Leave,
}

/// What the coordinator says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Down {
    /// An epoch begins: whose ranks take part, and where each listens.
    Meet {
        /// The epoch.
        epoch: u16,
        /// Ranks, in their order.
        members: Vec<(u32, Listens)>,
    },
    /// The job has begun, and whoever hears this waits for its next epoch.
    Begun,
    /// The job cannot begin yet: these ranks have not come.
    Missing {
        /// Which.
        ranks: Vec<u32>,
    },
    /// These ranks wait for the next epoch.
    Waiting {
        /// Which.
        ranks: Vec<u32>,
    },
    /// Whoever hears this takes no part any more.
    Dismissed {
        /// A clause that says why, of which that rank is the subject.
        why: String,
    },
    /// A sign of life.
    Alive,
    /// Who is there, and how far?
    Roll {
        /// Which roll call.
        call: u64,
        /// How far in which group; 0 is all members.
        group: u64,
    },
    /// The coordinator leaves, and that is no fault.
    Leave,
    /// Who is at fault. Nothing more is run in this epoch.
    Verdict {
        /// Who.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_protocol::codec::{Decoder, LONGEST, encode};

    #[test]
    fn messages_are_read_as_they_were_written() {
        let trouble = Trouble::closed("reset");
        let all = [
            Up::Alive,
            Up::Trouble { peer: 3, trouble: trouble.clone() },
            Up::Late { group: 1 << 60, ranks: vec![0, 3], sequence: 1 << 40, trouble },
            Up::Here { call: 2, progress: Progress { begun: 7, over: 6 }, hears: vec![0, 3] },
            Up::Deaf { hears: Vec::new(), trouble: Trouble::left() },
            Up::Leave,
        ];
        let mut decoder = Decoder::new(LONGEST);
        let bytes: Vec<u8> = all.iter().flat_map(encode).collect();
        let mut read = Vec::new();
        for piece in bytes.chunks(3) {
            decoder.feed(piece);
            while let Some(message) = decoder.message::<Up>().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, all);
        let verdict = Down::Verdict { blame: Blame::link(4, 2), trouble: Trouble::left() };
        decoder.feed(&encode(&verdict));
        assert_eq!(decoder.message::<Down>().unwrap(), Some(verdict));
    }

    #[test]
    fn a_length_beyond_all_measure_is_refused_before_it_is_kept() {
        let mut decoder = Decoder::new(100);
        decoder.feed(&[101, 0, 0, 0]);
        assert!(decoder.message::<Up>().unwrap_err().contains("101 bytes where 100 are allowed"));
    }

    fn troubles() -> impl Strategy<Value = Trouble> {
        use syncline_protocol::fault::Kind;
        let kinds = [
            Kind::Closed,
            Kind::Left,
            Kind::Silent,
            Kind::Corrupt,
            Kind::Changed,
            Kind::Differs,
            Kind::Deadline,
        ];
        (prop::sample::select(kinds.to_vec()), ".{0,20}").prop_map(|(kind, what)| Trouble { kind, what })
    }

    fn hears() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0..6u32, 0..6)
    }

    /// Anything that a member may say, of ranks that there are and some that there are not.
    pub(crate) fn sayings() -> impl Strategy<Value = Up> {
        let listens = Listens { lanes: Vec::new(), door: None, machine: Some("here".to_owned()) };
        let again = Up::Again { listens: listens.clone(), patience_ms: u64::MAX };
        let progress = (0..5u64, 0..5u64).prop_map(|(begun, over)| Progress { begun, over });
        prop_oneof![
            Just(Up::Listens(listens)),
            Just(again),
            Just(Up::Alive),
            Just(Up::Leave),
            (0..6u32, troubles()).prop_map(|(peer, trouble)| Up::Trouble { peer, trouble }),
            (0..3u64, 0..6u32, 0..5u64, troubles()).prop_map(|(group, rank, sequence, trouble)| Up::Late {
                group,
                ranks: vec![rank],
                sequence,
                trouble,
            }),
            (0..4u64, progress, hears()).prop_map(|(call, progress, hears)| Up::Here {
                call,
                progress,
                hears
            }),
            (hears(), troubles()).prop_map(|(hears, trouble)| Up::Deaf { hears, trouble }),
        ]
    }

    proptest! {
        #[test]
        fn what_members_say_is_read_as_it_was_said(saying in sayings(), cut in 1usize..100) {
            let mut decoder = Decoder::new(LONGEST);
            encode(&saying).chunks(cut).for_each(|part| decoder.feed(part));
            prop_assert_eq!(decoder.message::<Up>(), Ok(Some(saying)));
            prop_assert_eq!(decoder.message::<Up>(), Ok(None));
        }

        #[test]
        fn changed_messages_are_refused_or_read_and_never_waited_for(
            saying in sayings(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = encode(&saying);
            for (at, byte) in changes {
                let at = 4 + at.index(bytes.len() - 4);
                bytes[at] = byte;
            }
            for up in [true, false] {
                let mut decoder = Decoder::new(LONGEST);
                decoder.feed(&bytes);
                let waits = match up {
                    true => decoder.message::<Up>().is_ok_and(|message| message.is_none()),
                    false => decoder.message::<Down>().is_ok_and(|message| message.is_none()),
                };
                prop_assert!(!waits);
            }
        }

        #[test]
        fn garbage_is_refused_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), framed: bool) {
            let mut decoder = Decoder::new(100);
            if framed {
                decoder.feed(&(bytes.len() as u32).to_le_bytes());
            }
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.message::<Down>() {}
        }
    }
}
