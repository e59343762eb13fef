//! Which connections between lanes a member makes, without sockets and clocks: when it connects, when it tries again, and
//! what happens if both sides connect at the same time.
//!
//! Either of two ranks may connect to the other. While the higher one connects, it refuses the lower one, and the lower
//! one gives up its own try when it accepts the higher one. A side that has accepted a connection begins no other. So
//! both sides end with the same connection, in whatever order they begin.

use std::collections::BTreeMap;
use std::time::Duration;
use syncline_protocol::handshake::Refusal;

/// How long to wait before another try.
const RETRY: Duration = Duration::from_millis(100);

/// How long to wait before another try with a lane that was overdue: its process has probably left, and is not needed.
const LATE_RETRY: Duration = Duration::from_secs(1);

/// Most tries of a member at a time. Others wait: if all ranks connected to all others at once, handshakes would take so
/// long that they time out and begin again.
const MOST_AT_ONCE: usize = 32;

/// A lane of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerLane {
    /// The member's rank.
    pub rank: u32,
    /// The number of the lane.
    pub lane: u32,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This member connects at this time.
    Due(Duration),
    /// This member is connecting. `answered` says whether the other side's host has answered.
    Dialing {
        answered: bool,
    },
    /// This member has accepted the other side, and the connection is not complete yet.
    Accepted,
    Connected,
}

/// A connection to a lane of another member.
#[derive(Clone, Debug)]
struct Dial {
    state: State,
    /// Since when this member needs the connection. `None` if only the other side has asked for it.
    needed: Option<Duration>,
    /// The number of failed tries.
    tries: u32,
    /// The number of tries that the other side's host did not answer.
    unanswered: u32,
    /// Why the latest try failed.
    why: Option<String>,
    /// Whether [`Dials::overdue`] has returned it.
    reported: bool,
}

/// The connections of a member's lanes. All times count from one common moment.
#[derive(Clone, Debug)]
pub struct Dials {
    rank: u32,
    patience: Duration,
    dials: BTreeMap<PeerLane, Dial>,
}

impl Dials {
    /// Starts without connections, on the member of this rank. `patience` is how long the hosts of others may take to
    /// answer.
    pub const fn new(rank: u32, patience: Duration) -> Self {
        Self { rank, patience, dials: BTreeMap::new() }
    }

    /// Asks for a connection, which this member makes at the time `at` unless the other side has connected before.
    pub fn want(&mut self, peer: PeerLane, at: Duration) {
        let dial = Dial {
            state: State::Due(at),
            needed: Some(at),
            tries: 0,
            unanswered: 0,
            why: None,
            reported: false,
        };
        let known = self.dials.entry(peer).or_insert(dial);
        known.needed = Some(known.needed.map_or(at, |needed| needed.min(at)));
        if let State::Due(when) = &mut known.state
            && known.tries == 0
        {
            *when = at.min(*when);
        }
    }

    /// How many more tries this member may begin.
    fn room(&self) -> usize {
        let dialing = |dial: &&Dial| matches!(dial.state, State::Dialing { .. });
        MOST_AT_ONCE.saturating_sub(self.dials.values().filter(dialing).count())
    }

    /// Returns the lanes to which this member connects now: the caller begins to.
    pub fn due(&mut self, now: Duration) -> Vec<PeerLane> {
        let own = PeerLane { rank: self.rank, lane: 0 };
        // From the next lower rank on, so that not all ranks begin with the same one.
        let all = self.dials.range(..own).rev().chain(self.dials.range(own..).rev());
        let due = all.filter(|(_, dial)| matches!(dial.state, State::Due(when) if when <= now));
        let due: Vec<PeerLane> = due.map(|(&peer, _)| peer).take(self.room()).collect();
        for peer in &due {
            let dial = self.dials.get_mut(peer).expect("found just now");
            dial.state = State::Dialing { answered: false };
            if dial.tries == 0 {
                // Waiting for others does not count.
                dial.needed = dial.needed.map(|needed| needed.max(now));
            }
        }
        due
    }

    /// When [`Dials::due`] or [`Dials::overdue`] next has something to return, if nothing else happens.
    pub fn next_due(&self) -> Option<Duration> {
        let room = self.room() > 0;
        let when = |dial: &Dial| {
            let due = match dial.state {
                State::Due(when) if room => Some(when),
                _ => None,
            };
            let overdue =
                dial.needed.filter(|_| Self::is_unanswered(dial)).map(|since| since + self.patience);
            due.into_iter().chain(overdue).min()
        };
        self.dials.values().filter_map(when).min()
    }

    /// The number of failed tries to connect to a lane.
    pub fn tries(&self, peer: PeerLane) -> u32 {
        self.dials.get(&peer).map_or(0, |dial| dial.tries)
    }

    /// The number of tries to connect to a lane that its host did not answer.
    pub fn unanswered(&self, peer: PeerLane) -> u32 {
        self.dials.get(&peer).map_or(0, |dial| dial.unanswered)
    }

    /// Why the latest try to connect a lane failed.
    pub fn why(&self, peer: PeerLane) -> Option<&str> {
        self.dials.get(&peer)?.why.as_deref()
    }

    /// Whether this member is connecting to a lane.
    pub fn is_dialing(&self, peer: PeerLane) -> bool {
        matches!(self.dials.get(&peer), Some(Dial { state: State::Dialing { .. }, .. }))
    }

    /// Notes that the host of the other side has answered this member's try.
    pub fn answered(&mut self, peer: PeerLane) {
        if let Some(Dial { state: State::Dialing { answered }, .. }) = self.dials.get_mut(&peer) {
            *answered = true;
        }
    }

    /// Notes that a process did not finish this member's try. If its host has answered, the lane is not overdue yet.
    pub fn slow(&mut self, peer: PeerLane, now: Duration) {
        let answered = State::Dialing { answered: true };
        if let Some(Dial { needed: Some(needed), state, .. }) = self.dials.get_mut(&peer)
            && *state == answered
        {
            *needed = now;
        }
    }

    /// Decides whether a lane that connects to this member is accepted.
    ///
    /// # Errors
    /// Why it is refused. It need not try again: there is a connection, or this member is making it.
    pub fn may_accept(&self, peer: PeerLane) -> Result<(), Refusal> {
        let PeerLane { rank, lane } = peer;
        match self.dials.get(&peer).map(|dial| dial.state) {
            Some(State::Connected | State::Accepted) => {
                Err(format!("lane {lane} of rank {rank} is already connected").into())
            }
            Some(State::Dialing { .. }) if self.rank > rank => {
                let why = format!("rank {} is connecting to lane {lane} of rank {rank} itself", self.rank);
                Err(Refusal { why, permanent: false })
            }
            Some(State::Dialing { .. } | State::Due(_)) | None => Ok(()),
        }
    }

    /// Notes that this member has accepted a lane. Its own try, if one is under way, is given up.
    pub fn accept(&mut self, peer: PeerLane) {
        let accepted = Dial {
            state: State::Accepted,
            needed: None,
            tries: 0,
            unanswered: 0,
            why: None,
            reported: false,
        };
        self.dials.entry(peer).or_insert(accepted).state = State::Accepted;
    }

    /// Notes that a connection is complete.
    pub fn connected(&mut self, peer: PeerLane) {
        self.accept(peer);
        self.dials.entry(peer).and_modify(|dial| dial.state = State::Connected);
    }

    /// Notes that this member's own try has failed. It tries again soon.
    pub fn failed(&mut self, peer: PeerLane, why: String, now: Duration) {
        if let Some(dial) = self.dials.get_mut(&peer)
            && let State::Dialing { answered } = dial.state
        {
            dial.state = State::Due(now + if dial.reported { LATE_RETRY } else { RETRY });
            dial.tries += 1;
            dial.unanswered += u32::from(!answered);
            dial.why = Some(why);
        }
    }

    /// Notes that this member could not connect for a reason of its own, so no lane is overdue yet.
    pub fn excuse_all(&mut self, now: Duration) {
        let needed = self.dials.values_mut().filter_map(|dial| dial.needed.as_mut());
        needed.for_each(|needed| *needed = now.max(*needed));
    }

    /// Notes that a connection that this member has accepted was not completed, or that one was refused.
    pub fn accepting_failed(&mut self, peer: PeerLane, why: String, now: Duration) {
        let Some(dial) = self.dials.get_mut(&peer) else { return };
        dial.why = Some(why);
        if dial.state == State::Accepted {
            match dial.needed {
                Some(_) => dial.state = State::Due(now + RETRY),
                None => _ = self.dials.remove(&peer),
            }
        }
    }

    /// Whether this member has tried to connect and the other side's host has not answered.
    fn is_unanswered(dial: &Dial) -> bool {
        let unanswered = match dial.state {
            State::Due(_) => dial.tries > 0,
            State::Dialing { answered } => !answered,
            State::Accepted | State::Connected => false,
        };
        unanswered && !dial.reported
    }

    /// Returns the lanes that this member needs and that could not be reached for too long, each once, and why.
    pub fn overdue(&mut self, now: Duration) -> Vec<(PeerLane, Option<String>)> {
        let patience = self.patience;
        let overdue = self.dials.iter_mut().filter(|(_, dial)| {
            Self::is_unanswered(dial) && dial.needed.is_some_and(|since| now >= since + patience)
        });
        overdue
            .map(|(&peer, dial)| {
                dial.reported = true;
                (peer, dial.why.clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const PATIENCE: Duration = ms(1500);

    fn lane(rank: u32) -> PeerLane {
        PeerLane { rank, lane: 0 }
    }

    #[test]
    fn a_lane_that_cannot_be_reached_is_reported_once() {
        let mut dials = Dials::new(1, PATIENCE);
        dials.want(lane(2), ms(50));
        let mut reported = Vec::new();
        for now in (0..5000).step_by(50) {
            for peer in dials.due(ms(now)) {
                dials.failed(peer, format!("refused at {now}"), ms(now));
            }
            reported.extend(dials.overdue(ms(now)).into_iter().map(|found| (now, found)));
        }
        assert_eq!(reported, [(1550, (lane(2), Some("refused at 1550".to_owned())))]);
        assert!((15..25).contains(&dials.tries(lane(2))), "fewer after it was reported");
    }

    #[test]
    fn a_lane_is_not_overdue_for_a_reason_of_this_member() {
        let mut dials = Dials::new(1, PATIENCE);
        dials.want(lane(2), ms(0));
        assert_eq!(dials.due(ms(0)), [lane(2)]);
        dials.failed(lane(2), "no more files".to_owned(), ms(0));
        dials.excuse_all(ms(1400));
        assert!(dials.overdue(ms(2800)).is_empty() && !dials.overdue(ms(2900)).is_empty());
    }

    #[test]
    fn tries_that_a_host_answers_are_told_from_others() {
        let mut dials = Dials::new(1, PATIENCE);
        dials.want(lane(2), ms(0));
        for now in [0, 200, 400] {
            assert_eq!(dials.due(ms(now)), [lane(2)]);
            if now == 200 {
                dials.answered(lane(2));
            }
            dials.failed(lane(2), "refused".to_owned(), ms(now));
        }
        assert_eq!((dials.tries(lane(2)), dials.unanswered(lane(2))), (3, 2));
    }

    #[test]
    fn a_host_that_has_answered_is_not_overdue() {
        let mut dials = Dials::new(1, PATIENCE);
        dials.want(lane(2), ms(0));
        assert_eq!(dials.due(ms(0)), [lane(2)]);
        dials.answered(lane(2));
        assert!(dials.overdue(ms(4000)).is_empty() && dials.next_due().is_none());
        let mut slow = dials.clone();
        dials.failed(lane(2), "refused".to_owned(), ms(5000));
        assert_eq!(dials.overdue(ms(5000)), [(lane(2), Some("refused".to_owned()))]);
        slow.slow(lane(2), ms(5000));
        slow.failed(lane(2), "timed out".to_owned(), ms(5000));
        assert!(slow.overdue(ms(6400)).is_empty() && !slow.overdue(ms(6500)).is_empty());
    }

    #[test]
    fn a_limited_number_of_tries_is_under_way_and_waiting_is_not_unreachable() {
        let mut dials = Dials::new(50, PATIENCE);
        (0..100).filter(|&rank| rank != 50).for_each(|rank| dials.want(lane(rank), ms(0)));
        let first = dials.due(ms(0));
        assert_eq!(first, (18..50).rev().map(lane).collect::<Vec<_>>());
        assert!(dials.due(ms(1000)).is_empty() && dials.next_due() == Some(PATIENCE));
        dials.connected(lane(49));
        dials.failed(lane(48), "refused".to_owned(), ms(1000));
        assert_eq!(dials.due(ms(1000)), [lane(17), lane(16)]);
        let overdue: Vec<PeerLane> = dials.overdue(ms(1600)).into_iter().map(|(peer, _)| peer).collect();
        assert_eq!(overdue, (18..49).map(lane).collect::<Vec<_>>(), "not those that waited");
    }

    #[test]
    fn an_earlier_need_counts() {
        let mut dials = Dials::new(1, PATIENCE);
        dials.want(lane(2), ms(400));
        assert_eq!((dials.due(ms(0)), dials.next_due()), (vec![], Some(ms(400))));
        dials.want(lane(2), ms(10));
        assert_eq!(dials.due(ms(10)), [lane(2)]);
    }

    #[test]
    fn the_higher_rank_refuses_while_it_connects_and_the_lower_one_accepts() {
        let (mut low, mut high) = (Dials::new(1, PATIENCE), Dials::new(2, PATIENCE));
        low.want(lane(2), ms(0));
        high.want(lane(1), ms(0));
        assert_eq!((low.due(ms(0)), high.due(ms(0))), (vec![lane(2)], vec![lane(1)]));
        let refusal = high.may_accept(lane(1)).unwrap_err();
        assert!(!refusal.permanent && refusal.why.contains("itself"), "{refusal:?}");
        assert_eq!(low.may_accept(lane(2)), Ok(()));
        low.connected(lane(2));
        low.failed(lane(2), "refused".to_owned(), ms(1));
        assert!(low.due(ms(500)).is_empty(), "it is connected");
        assert!(low.may_accept(lane(2)).unwrap_err().why.contains("already connected"));
    }

    /// A message of a try to connect, to the other side.
    #[derive(Clone, Copy, Debug)]
    enum Message {
        /// From the side that connects, which the other then accepts or refuses.
        Proof {
            from: usize,
            number: u32,
        },
        Answer {
            to: usize,
            number: u32,
            accepted: bool,
        },
        /// The side that connects finds its connection broken before the other has seen it.
        Broken {
            to: usize,
            number: u32,
        },
    }

    proptest! {
        /// Two ranks connect to each other at any times, and messages of different tries arrive in any order.
        #[test]
        fn both_sides_end_with_the_same_connection(
            wants in prop::collection::vec(prop::option::of(0..300u64), 2),
            order in prop::collection::vec(any::<prop::sample::Index>(), 200),
            breaks in prop::collection::vec(any::<bool>(), 6),
        ) {
            let mut sides = [Dials::new(0, PATIENCE), Dials::new(1, PATIENCE)];
            // Each side's try under way, and its connection.
            let (mut tries, mut connections) = ([None::<u32>; 2], [None::<u32>; 2]);
            let mut flying: Vec<Message> = Vec::new();
            let (mut number, mut order) = (0u32, order.into_iter());
            for now in (0..4000).step_by(10) {
                for side in 0..2 {
                    let peer = lane(1 - side as u32);
                    if wants[side] == Some(now / 10) {
                        sides[side].want(peer, ms(now));
                    }
                    for _ in sides[side].due(ms(now)) {
                        prop_assert!(tries[side].is_none() && connections[side].is_none());
                        tries[side] = Some(number);
                        let broken = breaks.get(number as usize) == Some(&true);
                        flying.push(match broken {
                            true => Message::Broken { to: side, number },
                            false => Message::Proof { from: side, number },
                        });
                        number += 1;
                    }
                }
                // Some messages arrive, in any order.
                while !flying.is_empty() && (now > 3500 || number % 3 != now as u32 % 3) {
                    let at = order.next().map_or(0, |index| index.index(flying.len()));
                    match flying.swap_remove(at) {
                        Message::Proof { from, number } => {
                            let (to, peer) = (1 - from, lane(from as u32));
                            let accepted = sides[to].may_accept(peer).is_ok();
                            if accepted {
                                sides[to].accept(peer);
                                sides[to].connected(peer);
                                tries[to] = None;
                                prop_assert!(connections[to].replace(number).is_none());
                            }
                            flying.push(Message::Answer { to: from, number, accepted });
                        }
                        // A try that was given up gets no answer.
                        Message::Answer { to, number, .. } | Message::Broken { to, number }
                            if tries[to] != Some(number) => {}
                        Message::Answer { to, number, accepted: true } => {
                            tries[to] = None;
                            sides[to].connected(lane(1 - to as u32));
                            prop_assert!(connections[to].replace(number).is_none());
                        }
                        Message::Answer { to, .. } | Message::Broken { to, .. } => {
                            tries[to] = None;
                            sides[to].failed(lane(1 - to as u32), "refused".to_owned(), ms(now));
                        }
                    }
                    if now <= 3500 {
                        break;
                    }
                }
            }
            prop_assert_eq!(connections[0], connections[1]);
            prop_assert_eq!(connections[0].is_some(), wants.iter().any(Option::is_some));
        }
    }
}
