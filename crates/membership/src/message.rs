//! The messages between members and the coordinator.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use syncline_protocol::fault::{Blame, Trouble};
use syncline_protocol::policy::PlanPolicy;

/// How far a member is with the operations of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The number of the newest operation that it has begun; 0 if it has begun none.
    pub begun: u64,
    /// How many operations are over.
    pub over: u64,
}

/// Where a member listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenAddresses {
    /// The address of each lane.
    pub lanes: Vec<SocketAddr>,
    /// The abstract name of a Unix socket, for members that may share memory with this one. Only processes on the same
    /// machine and in the same network namespace can connect to it.
    #[serde(default)]
    pub unix_socket: Option<String>,
    /// An identifier of the member's machine.
    #[serde(default)]
    pub machine: Option<String>,
    /// Where the member would coordinate the job. Empty unless the job is elastic.
    #[serde(default)]
    pub coordinator: Vec<SocketAddr>,
}

/// Where the coordinator runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorPlace {
    /// The rank in whose process it runs.
    pub rank: u32,
    /// The addresses on which it listens.
    pub addresses: Vec<SocketAddr>,
}

/// A rank that takes part in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochMember {
    /// The rank.
    pub rank: u32,
    /// Where it listens.
    pub listens: ListenAddresses,
}

/// An operation or transfer that takes too long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateOperation {
    /// The number of its group; 0 is the group of all members.
    pub group: u64,
    /// The ranks of the group.
    pub ranks: Vec<u32>,
    /// The operation's number in the group; `None` for a transfer.
    pub sequence: Option<u64>,
    /// How long it has taken, as a clause about the rank at fault.
    pub trouble: Trouble,
}

/// New plans for a group, proposed by one of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanProposal {
    /// The number of the group; 0 is the group of all members.
    pub group: u64,
    /// The ranks of the group.
    pub ranks: Vec<u32>,
    /// A number by which the rank that proposes recognises the decision.
    pub request: u64,
    /// The plans.
    pub policy: PlanPolicy,
}

/// The decision on new plans for a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDecision {
    /// The number of the group.
    pub group: u64,
    /// The rank that proposed them, and the number of its request.
    pub proposer: u32,
    /// See [`PlanProposal::request`].
    pub request: u64,
    /// The number of the edition; 0 if the proposal was refused before members prepared it.
    pub edition: u32,
    /// The first operation that runs by the new plans; or why all ranks keep the old ones.
    pub outcome: Result<u64, String>,
}

/// The decision on a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Who is at fault.
    pub blame: Blame,
    /// What happened.
    pub trouble: Trouble,
}

/// A message from a member to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FromMember {
    /// Where the member listens. This is the first message of a member.
    ListenAddresses(ListenAddresses),
    /// A heartbeat.
    Alive,
    /// Something seems to be wrong with a peer, or is wrong with the member itself.
    Trouble {
        /// The rank of the peer, or of the member itself.
        peer: u32,
        /// What is wrong.
        trouble: Trouble,
    },
    /// An operation takes too long.
    Late(LateOperation),
    /// The answer to a [`FromCoordinator::ProgressRequest`].
    Progress {
        /// The number of the request.
        call: u64,
        /// How far the member is.
        progress: Progress,
        /// Ranks from which the member has received something recently.
        hears: Vec<u32>,
    },
    /// The member no longer hears the coordinator, and gives up. If this message arrives, the network carries
    /// messages from the member to the coordinator, but not back.
    CannotHearCoordinator {
        /// Ranks from which the member has received something recently.
        hears: Vec<u32>,
        /// The coordinator's silence.
        trouble: Trouble,
    },
    /// The member has ended this epoch and asks for the next one.
    RequestEpoch {
        /// Where it listens in the next epoch.
        listens: ListenAddresses,
        /// How long it is willing to wait for ranks that were lost, in milliseconds.
        patience_ms: u64,
    },
    /// The member proposes new plans for a group that it is in.
    ProposePlans(PlanProposal),
    /// The answer to a [`FromCoordinator::PreparePlans`].
    PlansPrepared {
        /// The number of the edition.
        edition: u32,
        /// The number of the group.
        group: u64,
        /// The last operation that the member begins before it knows the decision; or why it cannot run the plans.
        answer: Result<u64, String>,
    },
    /// The member leaves, which is no fault.
    Leave,
}

/// A message from the coordinator to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FromCoordinator {
    /// An epoch begins.
    BeginEpoch {
        /// The number of the epoch.
        epoch: u16,
        /// The ranks that take part, in ascending order.
        members: Vec<EpochMember>,
    },
    /// The job has begun. The receiver joins it in the next epoch.
    Begun,
    /// Another process coordinates the job.
    Moved(CoordinatorPlace),
    /// The job cannot begin yet, because ranks have not joined.
    Missing {
        /// The missing ranks.
        ranks: Vec<u32>,
    },
    /// Some ranks wait for the next epoch.
    Waiting {
        /// The waiting ranks.
        ranks: Vec<u32>,
    },
    /// The receiver no longer takes part in the job.
    Dismissed {
        /// The reason, as a clause about the receiver.
        why: String,
    },
    /// A heartbeat.
    Alive,
    /// Every member answers with its progress ([`FromMember::Progress`]).
    ProgressRequest {
        /// The number of the request.
        call: u64,
        /// The group whose progress is asked for; 0 is the group of all members.
        group: u64,
    },
    /// Every rank of a group prepares an edition of its plan book, and answers ([`FromMember::PlansPrepared`]).
    PreparePlans {
        /// The number of the edition.
        edition: u32,
        /// The proposal.
        proposal: PlanProposal,
    },
    /// The decision on new plans. All ranks of the group get it, in any case the one that proposed them.
    DecidePlans(PlanDecision),
    /// The coordinator leaves, which is no fault.
    Leave,
    /// The verdict on a fault, which ends this epoch.
    Verdict {
        /// Who is at fault.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_protocol::codec::{Decoder, MAX_MESSAGE_BYTES, encode};
    use syncline_protocol::policy::NearFarNetwork;

    #[test]
    fn messages_are_decoded_as_they_were_encoded() {
        let trouble = Trouble::closed("reset");
        let all = [
            FromMember::Alive,
            FromMember::Trouble { peer: 3, trouble: trouble.clone() },
            FromMember::Late(LateOperation {
                group: 1 << 60,
                ranks: vec![0, 3],
                sequence: Some(1 << 40),
                trouble,
            }),
            FromMember::Progress { call: 2, progress: Progress { begun: 7, over: 6 }, hears: vec![0, 3] },
            FromMember::CannotHearCoordinator { hears: Vec::new(), trouble: Trouble::left() },
            FromMember::Leave,
        ];
        let mut decoder = Decoder::new(MAX_MESSAGE_BYTES);
        let bytes: Vec<u8> = all.iter().flat_map(encode).collect();
        let mut read = Vec::new();
        for piece in bytes.chunks(3) {
            decoder.feed(piece);
            while let Some(message) = decoder.message::<FromMember>().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, all);
        let verdict = FromCoordinator::Verdict { blame: Blame::link(4, 2), trouble: Trouble::left() };
        decoder.feed(&encode(&verdict));
        assert_eq!(decoder.message::<FromCoordinator>().unwrap(), Some(verdict));
    }

    #[test]
    fn a_message_longer_than_allowed_is_refused_before_it_is_stored() {
        let mut decoder = Decoder::new(100);
        decoder.feed(&[101, 0, 0, 0]);
        assert!(
            decoder.message::<FromMember>().unwrap_err().contains("101 bytes, and at most 100 are allowed")
        );
    }

    fn troubles() -> impl Strategy<Value = Trouble> {
        use syncline_protocol::fault::FaultKind;
        let kinds = [
            FaultKind::Closed,
            FaultKind::Left,
            FaultKind::Silent,
            FaultKind::Corrupt,
            FaultKind::Changed,
            FaultKind::Differs,
            FaultKind::Deadline,
        ];
        (prop::sample::select(kinds.to_vec()), ".{0,20}").prop_map(|(kind, what)| Trouble { kind, what })
    }

    fn hears() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0..6u32, 0..6)
    }

    /// Some plans.
    pub(crate) fn policy() -> PlanPolicy {
        let network = NearFarNetwork {
            near_bytes_per_s: 1 << 30,
            far_bytes_per_s: 1 << 29,
            latency_ns: 30_000,
            message_ns: 15_000,
            buffer: 1 << 16,
        };
        PlanPolicy { order: vec![0, 2, 1], racks: None, rules: Vec::new(), network }
    }

    /// Any message of a member, about ranks of the job and about others.
    pub(crate) fn member_messages() -> impl Strategy<Value = FromMember> {
        let listens = ListenAddresses { machine: Some("here".to_owned()), ..ListenAddresses::default() };
        let request = FromMember::RequestEpoch { listens: listens.clone(), patience_ms: u64::MAX };
        let progress = (0..5u64, 0..5u64).prop_map(|(begun, over)| Progress { begun, over });
        prop_oneof![
            Just(FromMember::ListenAddresses(listens)),
            Just(request),
            Just(FromMember::Alive),
            Just(FromMember::Leave),
            (0..6u32, troubles()).prop_map(|(peer, trouble)| FromMember::Trouble { peer, trouble }),
            (0..3u64, 0..6u32, prop::option::of(1..5u64), troubles()).prop_map(
                |(group, rank, sequence, trouble)| {
                    FromMember::Late(LateOperation { group, ranks: vec![rank], sequence, trouble })
                }
            ),
            (0..4u64, progress, hears()).prop_map(|(call, progress, hears)| FromMember::Progress {
                call,
                progress,
                hears
            }),
            (0..3u64, prop::collection::vec(0..6u32, 0..4)).prop_map(|(group, ranks)| {
                FromMember::ProposePlans(PlanProposal { group, ranks, request: 1, policy: policy() })
            }),
            (0..4u32, 0..3u64, prop::result::maybe_ok(0..9u64, ".{0,20}"))
                .prop_map(|(edition, group, answer)| FromMember::PlansPrepared { edition, group, answer }),
            (hears(), troubles())
                .prop_map(|(hears, trouble)| FromMember::CannotHearCoordinator { hears, trouble }),
        ]
    }

    proptest! {
        #[test]
        fn any_message_of_a_member_is_decoded_as_it_was_encoded(message in member_messages(), cut in 1usize..100) {
            let mut decoder = Decoder::new(MAX_MESSAGE_BYTES);
            encode(&message).chunks(cut).for_each(|part| decoder.feed(part));
            prop_assert_eq!(decoder.message::<FromMember>(), Ok(Some(message)));
            prop_assert_eq!(decoder.message::<FromMember>(), Ok(None));
        }

        #[test]
        fn a_corrupted_message_is_refused_or_decoded_and_never_waited_for(
            message in member_messages(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = encode(&message);
            for (at, byte) in changes {
                let at = 4 + at.index(bytes.len() - 4);
                bytes[at] = byte;
            }
            for from_member in [true, false] {
                let mut decoder = Decoder::new(MAX_MESSAGE_BYTES);
                decoder.feed(&bytes);
                let waits = match from_member {
                    true => decoder.message::<FromMember>().is_ok_and(|message| message.is_none()),
                    false => decoder.message::<FromCoordinator>().is_ok_and(|message| message.is_none()),
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
            while let Ok(Some(_)) = decoder.message::<FromCoordinator>() {}
        }
    }
}
