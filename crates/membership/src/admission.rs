//! Who may come in: to the coordinator as a member, and to a member as a lane of another. Whoever is asked knows already that
//! the other side is who it says.

use syncline_protocol::handshake::{Refusal, Role};

/// What the coordinator of a job goes by.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    /// How many ranks there are to be.
    pub world: u32,
    /// Connections between each two of them.
    pub lanes: u32,
    /// Whether ranks may come in place of lost ones.
    pub elastic: bool,
    /// Whether the first epoch has begun.
    pub begun: bool,
}

impl Members {
    /// Whether a role is free; `here` says whether a rank is there, and `left` whether it has been and was through.
    ///
    /// # Errors
    /// Why it is not, and whether it may be later.
    pub fn admit(
        &self,
        role: &Role,
        here: impl Fn(u32) -> bool,
        left: impl Fn(u32) -> bool,
    ) -> Result<(), Refusal> {
        let Self { world, lanes, elastic, begun } = *self;
        match *role {
            // Another job of the name, at the same place, begins once this one is over.
            Role::Member { rank, .. } if begun && !elastic && left(rank) => {
                let why =
                    format!("the job goes on, which rank {rank} has left: another can begin when it is over");
                Err(Refusal { why, later: true })
            }
            Role::Member { world: theirs, .. } if theirs != world => {
                Err(format!("{theirs} ranks there meet {world} ranks here").into())
            }
            Role::Member { rank, .. } if rank >= world => {
                Err(format!("there is no rank {rank} of {world}: ranks are 0 to {}", world - 1).into())
            }
            Role::Member { lanes: theirs, .. } if theirs != lanes => {
                Err(format!("{theirs} lanes there meet {lanes} lanes here").into())
            }
            // Whoever is started again may come before it is known that it was lost.
            Role::Member { rank, .. } if here(rank) => {
                Err(Refusal { why: format!("rank {rank} is here already"), later: elastic })
            }
            Role::Member { rank, .. } if begun && !elastic => {
                Err(format!("the job has begun, and rank {rank} is no part of it any more").into())
            }
            Role::Member { .. } => Ok(()),
            _ => Err("only members join at the coordinator".to_owned().into()),
        }
    }
}

/// What a member goes by that others connect their lanes to.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// Its rank: those of higher rank connect to it.
    pub rank: u32,
    /// Lanes that it has.
    pub lanes: u32,
    /// The epoch that begins.
    pub epoch: u16,
}

impl Lanes {
    /// Whether a role is free; `takes_part` says whether a rank takes part in the epoch, `here` whether a lane of it is there.
    ///
    /// # Errors
    /// Why it is not.
    pub fn admit(
        &self,
        role: &Role,
        takes_part: impl Fn(u32) -> bool,
        here: impl Fn(u32, u32) -> bool,
    ) -> Result<(), Refusal> {
        let Role::Lane { from, to, lane, epoch: theirs } = *role else {
            return Err("only lanes lead to members".to_owned().into());
        };
        let Self { rank, lanes, epoch } = *self;
        if to != rank || from <= rank || !takes_part(from) || lane >= lanes {
            Err(format!("no lane {lane} leads from rank {from} to rank {to} here").into())
        } else if theirs != epoch {
            Err(format!("epoch {theirs} is not this epoch {epoch}").into())
        } else if here(from, lane) {
            Err(format!("lane {lane} of rank {from} is here already").into())
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_leads_from_a_higher_rank_of_this_epoch_and_once() {
        let door = Lanes { rank: 1, lanes: 2, epoch: 5 };
        let lane = |from, to, lane, epoch| {
            let role = Role::Lane { from, to, lane, epoch };
            door.admit(&role, |rank| rank < 4, |from, lane| (from, lane) == (3, 1))
        };
        assert_eq!(lane(2, 1, 0, 5), Ok(()));
        for (refused, words) in [
            (lane(2, 0, 0, 5), "no lane 0 leads from rank 2 to rank 0"),
            (lane(0, 1, 0, 5), "from rank 0"),
            (lane(1, 1, 0, 5), "from rank 1"),
            (lane(4, 1, 0, 5), "from rank 4"),
            (lane(2, 1, 2, 5), "no lane 2"),
            (lane(2, 1, 0, 4), "epoch 4 is not this epoch 5"),
            (lane(3, 1, 1, 5), "lane 1 of rank 3 is here already"),
            (door.admit(&Role::Visitor, |_| true, |_, _| false), "only lanes"),
        ] {
            let refusal = refused.unwrap_err();
            assert!(refusal.why.contains(words) && !refusal.later, "{refusal:?}");
        }
    }

    #[test]
    fn whoever_is_started_again_may_come_later_where_the_job_is_elastic() {
        for (elastic, begun) in [(false, false), (false, true), (true, false), (true, true)] {
            let members = Members { world: 3, lanes: 1, elastic, begun };
            let role = |rank| Role::Member { rank, world: 3, lanes: 1 };
            let admit = |rank| members.admit(&role(rank), |rank| rank == 1, |rank| rank == 0);
            let taken = admit(1).unwrap_err();
            assert_eq!((taken.why.as_str(), taken.later), ("rank 1 is here already", elastic));
            assert_eq!(
                admit(2).map_err(|refusal| refusal.later),
                if elastic || !begun { Ok(()) } else { Err(false) }
            );
            assert_eq!(
                admit(0).map_err(|refusal| refusal.later),
                if elastic || !begun { Ok(()) } else { Err(true) }
            );
        }
    }
}
