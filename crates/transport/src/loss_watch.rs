//! Tells peers whose packets the network loses from peers that are dead or stopped, by what the kernel knows about
//! connections.
//!
//! If many hosts send to one, most of their packets are lost, and TCP waits longer and longer before it sends them again:
//! a peer may then be silent for seconds while it is alive. Three things reveal that:
//!
//! - segments with data arrive from the peer, but nothing new: TCP repeats what has arrived, or what follows a gap;
//! - what was sent to the peer is being sent again, while some acknowledgements arrive from it;
//! - segments of many other peers arrive with gaps: they all send to this host, and its switch drops what does not fit.
//!
//! The kernel of a stopped process acknowledges what arrives, and repeats nothing. From a dead host nothing arrives.
//!
//! TCP waits twice as long before each further try. So a sign of loss counts for about twice as long as the peer had been
//! quiet by then, and a peer that dies after a single lost packet is found soon.

use super::tcp_info::TcpInfo;
use std::collections::BTreeMap;
use std::time::Duration;

/// The fewest other peers whose segments arrive with gaps. Few plans let a rank receive from eight peers at the same time.
const OTHERS: usize = 8;

/// How long any sign of loss counts at least.
const SIGN: Duration = Duration::from_secs(2);

/// Watches the connections of one thread while some peers are quiet. All times count from one common moment.
#[derive(Debug, Default)]
pub struct LossWatch {
    peers: BTreeMap<usize, Watched>,
}

/// What is known about a peer.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// What the kernel knew about its connection at the last look.
    last: TcpInfo,
    /// When a segment last arrived after a gap.
    gap: Option<Duration>,
    /// The peer is quiet.
    quiet: Option<Quiet>,
}

/// What is known about a quiet peer.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    since: Duration,
    /// What the kernel knew then.
    first: TcpInfo,
    /// The last sign that packets are lost.
    sign: Option<Duration>,
}

impl LossWatch {
    /// Returns those of the `quiet` peers whose packets the network loses. `all` has what the kernel knows about each
    /// connection; it is not used if no peer is quiet.
    pub fn look(
        &mut self,
        quiet: &[usize],
        all: impl IntoIterator<Item = (usize, Option<TcpInfo>)>,
        now: Duration,
    ) -> Vec<usize> {
        if quiet.is_empty() {
            self.peers.clear();
            return Vec::new();
        }
        for (peer, info) in all.into_iter().filter_map(|(peer, info)| Some((peer, info?))) {
            let watched = self.peers.entry(peer).or_insert(Watched { last: info, gap: None, quiet: None });
            watched.note(info, quiet.contains(&peer), now);
        }
        let recent = |gap: Option<Duration>| gap.is_some_and(|gap| now.saturating_sub(gap) <= SIGN);
        let with_gaps: Vec<usize> =
            self.peers.iter().filter(|(_, watched)| recent(watched.gap)).map(|(&peer, _)| peer).collect();
        let loses = |&peer: &usize| {
            let Some(quiet) = self.peers.get_mut(&peer).and_then(|watched| watched.quiet.as_mut()) else {
                return false;
            };
            if with_gaps.iter().filter(|&&other| other != peer).count() >= OTHERS {
                quiet.sign = Some(now);
            }
            quiet.sign.is_some_and(|sign| now.saturating_sub(sign) <= 2 * (sign - quiet.since) + SIGN)
        };
        quiet.iter().copied().filter(loses).collect()
    }
}

impl Watched {
    /// Notes what the kernel knows now.
    fn note(&mut self, info: TcpInfo, quiet: bool, now: Duration) {
        let last = std::mem::replace(&mut self.last, info);
        if info.out_of_order != last.out_of_order {
            self.gap = Some(now);
        }
        if !quiet {
            self.quiet = None;
            return;
        }
        // What arrived before does not count.
        let Some(Quiet { first, sign, .. }) = &mut self.quiet else {
            self.quiet = Some(Quiet { since: now, first: info, sign: None });
            return;
        };
        let news = info.segments_in != last.segments_in || (info.sends_again && !last.sends_again);
        let again = info.sends_again && info.segments_in != first.segments_in;
        if news && (again || info.data_segments_in != first.data_segments_in) {
            *sign = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// What the kernel knows: counts of segments, of segments with data and of segments after a gap, and `sends_again`.
    fn info(
        segments_in: u32,
        data_segments_in: u32,
        out_of_order: u32,
        sends_again: bool,
    ) -> Option<TcpInfo> {
        Some(TcpInfo { segments_in, data_segments_in, out_of_order, sends_again, ..TcpInfo::default() })
    }

    #[test]
    fn lost_packets_are_told_from_death() {
        let mut watch = LossWatch::default();
        let healthy = (1, info(50, 20, 0, false));
        // Peer 2 is stopped, 3 is dead, 4 sends the same again, 5 acknowledges now and then.
        let began = [
            healthy,
            (2, info(9, 9, 0, false)),
            (3, info(9, 9, 0, true)),
            (4, info(9, 9, 0, false)),
            (5, info(9, 9, 0, true)),
        ];
        assert!(watch.look(&[2, 3, 4, 5], began, s(1)).is_empty());
        let later = [
            healthy,
            (2, info(12, 9, 0, false)),
            (3, info(9, 9, 0, true)),
            (4, info(10, 10, 0, false)),
            (5, info(10, 9, 0, true)),
        ];
        assert_eq!(watch.look(&[2, 3, 4, 5], later, s(2)), [4, 5]);
    }

    #[test]
    fn gaps_of_many_others_show_that_many_send_to_this_host() {
        let mut watch = LossWatch::default();
        let all = |gaps: usize| {
            let others = (0..20).map(move |peer| (peer, info(50, 50, u32::from(peer < gaps), false)));
            others.chain([(20, info(9, 9, 1, false))])
        };
        assert!(watch.look(&[20], all(0), s(1)).is_empty());
        assert!(watch.look(&[20], all(7), s(2)).is_empty());
        assert_eq!(watch.look(&[20], all(8), s(3)), [20]);
        assert_eq!(watch.look(&[20], all(8), s(5)), [20]);
        // Nobody is quiet for a while: earlier gaps no longer count.
        assert!(watch.look(&[], all(8), s(6)).is_empty());
        assert!(watch.look(&[20], all(8), s(7)).is_empty());
    }

    #[test]
    fn what_arrived_before_a_peer_was_quiet_does_not_count() {
        let mut watch = LossWatch::default();
        assert!(watch.look(&[1], [(1, info(5, 5, 0, true)), (2, info(5, 5, 0, true))], s(1)).is_empty());
        assert!(watch.look(&[1, 2], [(1, info(5, 5, 0, true)), (2, info(9, 9, 0, true))], s(2)).is_empty());
        assert!(watch.look(&[1, 2], [(1, None), (2, None)], s(3)).is_empty(), "not TCP");
    }

    #[test]
    fn a_sign_of_loss_counts_until_tcp_would_have_tried_again() {
        // A segment arrives again after the peer was quiet for so many seconds; then nothing more.
        for (seconds, expires) in [(1, 6), (4, 15)] {
            let mut watch = LossWatch::default();
            assert!(watch.look(&[1], [(1, info(5, 5, 0, false))], s(1)).is_empty());
            let lossy: Vec<u64> = (2..40)
                .filter(|&now| {
                    let again = u32::from(now > seconds);
                    !watch.look(&[1], [(1, info(5 + again, 5 + again, 0, false))], s(now)).is_empty()
                })
                .collect();
            assert_eq!((lossy.first(), lossy.last()), (Some(&(seconds + 1)), Some(&expires)));
        }
    }
}
