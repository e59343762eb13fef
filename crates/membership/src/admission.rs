//! Who may join: at the coordinator as a member, and at a member as a lane of another member. The other side is already
//! authenticated.

use syncline_protocol::handshake::{Refusal, Role};

/// The rules by which a coordinator admits members.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    /// The number of ranks of the job.
    pub world: u32,
    /// The number of connections between each two ranks.
    pub lanes: u32,
    /// Whether processes may replace lost ranks.
    pub elastic: bool,
    /// Whether the first epoch has begun.
    pub begun: bool,
}

impl Members {
    /// Decides whether a process may join as `role`. `joined` says whether a rank has joined, `left` whether it has finished
    /// and left, and `survived` whether a rank that has lost its coordinator after an epoch can go on here.
    ///
    /// # Errors
    /// Why the process is refused, and whether it may try again.
    pub fn admit(
        &self,
        role: &Role,
        joined: impl Fn(u32) -> bool,
        left: impl Fn(u32) -> bool,
        survived: impl Fn(u32, u16) -> bool,
    ) -> Result<(), Refusal> {
        let Self { world, lanes, elastic, begun } = *self;
        match *role {
            // The process may belong to the next job of this name at this address, which begins once this one is over.
            Role::Member { rank, .. } if begun && !elastic && left(rank) => {
                let why = format!(
                    "rank {rank} has left this job, which is still running: start the next job when this one \
                     has ended"
                );
                Err(Refusal { why, permanent: false })
            }
            Role::Member { world: theirs, .. } if theirs != world => {
                Err(format!("this job has {world} ranks, not {theirs}").into())
            }
            Role::Member { rank, .. } if rank >= world => {
                Err(format!("rank {rank} does not exist: the job has {world} ranks, numbered from 0").into())
            }
            Role::Member { lanes: theirs, .. } if theirs != lanes => {
                Err(format!("this job has {lanes} lanes, not {theirs}").into())
            }
            // A process that was started again may connect before the coordinator knows that its predecessor was lost.
            Role::Member { rank, .. } if joined(rank) => {
                Err(Refusal { why: format!("rank {rank} has already joined"), permanent: !elastic })
            }
            Role::Member { rank, .. } if begun && !elastic => {
                Err(format!("the job has begun, and rank {rank} no longer takes part in it").into())
            }
            Role::Member { .. } => Ok(()),
            Role::Survivor { rank, .. } if rank >= world || !elastic => {
                Err(format!("rank {rank} does not take part in this job").into())
            }
            // An earlier coordinator may have died with an earlier job at this address.
            Role::Survivor { .. } if !begun => {
                Err(Refusal { why: "this job has not begun".to_owned(), permanent: false })
            }
            // The coordinator may not know yet that it has lost this rank.
            Role::Survivor { rank, .. } if joined(rank) => {
                Err(Refusal { why: format!("rank {rank} is connected already"), permanent: false })
            }
            Role::Survivor { rank, epoch, .. } if !survived(rank, epoch) => {
                Err(format!("the others go on without rank {rank}").into())
            }
            Role::Survivor { .. } => Ok(()),
            Role::Successor { rank, .. } if begun || !elastic || rank >= world => {
                Err("this is the coordinator of another job, which has begun".to_owned().into())
            }
            Role::Successor { .. } => Ok(()),
            _ => Err("only ranks may connect to the coordinator".to_owned().into()),
        }
    }

    /// Decides whether a process may connect as `role` to a process of rank `own`, which does not coordinate the job.
    /// `knows` says whether it knows which one does.
    ///
    /// # Errors
    /// As [`Members::admit`].
    pub fn redirect(&self, role: &Role, own: u32, knows: bool) -> Result<(), Refusal> {
        match *role {
            Role::Member { rank, .. } | Role::Survivor { rank, .. } | Role::Successor { rank, .. }
                if rank >= self.world =>
            {
                Err(format!("rank {rank} does not take part in this job").into())
            }
            Role::Successor { first, .. } if first == own => Ok(()),
            Role::Member { .. } | Role::Survivor { .. } if knows => Ok(()),
            Role::Member { .. } | Role::Survivor { .. } => {
                Err(Refusal { why: format!("rank {own} does not coordinate the job"), permanent: false })
            }
            _ => Err("only ranks may connect to a rank that may coordinate".to_owned().into()),
        }
    }
}

/// The rules by which a member accepts the lanes of others.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// The member's rank.
    pub rank: u32,
    /// The number of its lanes.
    pub lanes: u32,
    /// The epoch that begins.
    pub epoch: u16,
}

impl Lanes {
    /// Decides whether a process may connect as `role`. `takes_part` says whether a rank takes part in the epoch, and
    /// `may_connect` whether one of its lanes may connect now.
    ///
    /// # Errors
    /// Why the process is refused.
    pub fn admit(
        &self,
        role: &Role,
        takes_part: impl Fn(u32) -> bool,
        may_connect: impl Fn(u32, u32) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Role::Lane { from, to, lane, epoch: theirs } = *role else {
            return Err("only lanes of other ranks can connect to a rank".to_owned().into());
        };
        let Self { rank, lanes, epoch } = *self;
        if to != rank || from == rank || !takes_part(from) || lane >= lanes {
            Err(format!("rank {rank} expects no lane {lane} from rank {from} to rank {to}").into())
        } else if theirs != epoch {
            Err(format!("the job is in epoch {epoch}, not {theirs}").into())
        } else {
            may_connect(from, lane)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_of_another_rank_in_this_epoch_may_connect_once() {
        let lanes = Lanes { rank: 1, lanes: 2, epoch: 5 };
        let lane = |from, to, lane, epoch| {
            let role = Role::Lane { from, to, lane, epoch };
            lanes.admit(
                &role,
                |rank| rank < 4,
                |from, lane| match (from, lane) {
                    (3, 1) => Err("lane 1 of rank 3 is already connected".to_owned().into()),
                    _ => Ok(()),
                },
            )
        };
        assert_eq!((lane(0, 1, 0, 5), lane(2, 1, 0, 5)), (Ok(()), Ok(())));
        for (refused, words) in [
            (lane(2, 0, 0, 5), "no lane 0 from rank 2 to rank 0"),
            (lane(1, 1, 0, 5), "from rank 1"),
            (lane(4, 1, 0, 5), "from rank 4"),
            (lane(2, 1, 2, 5), "no lane 2"),
            (lane(2, 1, 0, 4), "in epoch 5, not 4"),
            (lane(3, 1, 1, 5), "lane 1 of rank 3 is already connected"),
            (lanes.admit(&Role::StatusClient, |_| true, |_, _| Ok(())), "only lanes"),
        ] {
            let refusal = refused.unwrap_err();
            assert!(refusal.why.contains(words) && refusal.permanent, "{refusal:?}");
        }
    }

    #[test]
    fn a_rank_that_is_started_again_may_join_later_if_the_job_is_elastic() {
        for (elastic, begun) in [(false, false), (false, true), (true, false), (true, true)] {
            let members = Members { world: 3, lanes: 1, elastic, begun };
            let role = |rank| Role::Member { rank, world: 3, lanes: 1, coordinator: 0 };
            let admit = |rank| members.admit(&role(rank), |rank| rank == 1, |rank| rank == 0, |_, _| false);
            let taken = admit(1).unwrap_err();
            assert_eq!((taken.why.as_str(), taken.permanent), ("rank 1 has already joined", !elastic));
            assert_eq!(
                admit(2).map_err(|refusal| refusal.permanent),
                if elastic || !begun { Ok(()) } else { Err(true) }
            );
            assert_eq!(
                admit(0).map_err(|refusal| refusal.permanent),
                if elastic || !begun { Ok(()) } else { Err(false) }
            );
        }
    }

    #[test]
    fn survivors_may_ask_a_coordinator_with_which_they_can_go_on_and_no_other() {
        let survivor = |rank| Role::Survivor { rank, coordinator: 1, epoch: 3 };
        let answer = |elastic, begun, survives, rank| {
            let members = Members { world: 3, lanes: 1, elastic, begun };
            let admitted = members.admit(
                &survivor(rank),
                |rank| rank == 2,
                |_| false,
                |_, epoch| survives && epoch == 3,
            );
            admitted.map_err(|refusal| refusal.permanent)
        };
        assert_eq!(answer(true, true, true, 1), Ok(()));
        assert_eq!(answer(true, true, true, 2), Err(false), "its last connection may not be closed yet");
        assert_eq!(answer(true, true, true, 3), Err(true));
        assert_eq!(answer(true, true, false, 1), Err(true), "the others have gone on");
        assert_eq!(
            answer(true, true, false, 2),
            Err(false),
            "the coordinator does not know yet that it was lost"
        );
        assert_eq!(answer(true, false, false, 1), Err(false), "another job, which has not begun");
        assert_eq!(answer(false, true, false, 1), Err(true));
    }

    #[test]
    fn only_a_job_that_has_not_begun_is_told_that_another_process_coordinates_it() {
        for (elastic, begun, told) in [(true, false, true), (true, true, false), (false, false, false)] {
            let members = Members { world: 3, lanes: 1, elastic, begun };
            let role = Role::Successor { rank: 1, first: 0, addresses: Vec::new() };
            assert_eq!(members.admit(&role, |_| false, |_| false, |_, _| false).is_ok(), told);
        }
    }

    #[test]
    fn a_process_that_does_not_coordinate_answers_ranks_if_it_knows_who_does() {
        let members = Members { world: 3, lanes: 1, elastic: true, begun: false };
        let member = |rank| Role::Member { rank, world: 3, lanes: 1, coordinator: 0 };
        let survivor = |rank| Role::Survivor { rank, coordinator: 0, epoch: 3 };
        let successor = |rank, first| Role::Successor { rank, first, addresses: Vec::new() };
        let answer =
            |role: Role, knows| members.redirect(&role, 0, knows).map_err(|refusal| refusal.permanent);
        for (role, unknown, known) in [
            (member(1), Err(false), Ok(())),
            (survivor(2), Err(false), Ok(())),
            (member(3), Err(true), Err(true)),
            (survivor(u32::MAX), Err(true), Err(true)),
            (successor(2, 0), Ok(()), Ok(())),
            (successor(3, 0), Err(true), Err(true)),
            (successor(2, 1), Err(true), Err(true)),
            (Role::Lane { from: 1, to: 0, lane: 0, epoch: 0 }, Err(true), Err(true)),
        ] {
            assert_eq!(
                (answer(role.clone(), false), answer(role.clone(), true)),
                (unknown, known),
                "{role:?}"
            );
        }
    }
}
