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

use super::tcp_info::TcpInfo;
use std::collections::BTreeMap;

/// The fewest other peers whose segments arrive with gaps. Few plans let a rank receive from eight peers at the same time.
const OTHERS: usize = 8;

/// Watches the connections of one thread while some peers are quiet.
#[derive(Debug, Default)]
pub struct LossWatch {
    /// What the kernel knew about each peer's connection when the watch began, or the peer became quiet.
    first: BTreeMap<usize, TcpInfo>,
    /// Peers that are quiet.
    quiet: Vec<usize>,
}

impl LossWatch {
    /// Returns those of the `quiet` peers whose packets the network loses. `all` has what the kernel knows about each
    /// connection; it is not used if no peer is quiet.
    pub fn look(
        &mut self,
        quiet: Vec<usize>,
        all: impl IntoIterator<Item = (usize, Option<TcpInfo>)>,
    ) -> Vec<usize> {
        if quiet.is_empty() {
            *self = Self::default();
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.quiet, quiet);
        let now: BTreeMap<usize, TcpInfo> =
            all.into_iter().filter_map(|(peer, info)| Some((peer, info?))).collect();
        for (&peer, &info) in &now {
            let first = self.first.entry(peer).or_insert(info);
            if self.quiet.contains(&peer) && !before.contains(&peer) {
                *first = info;
            }
        }
        let gaps = |peer: usize, info: &TcpInfo| info.out_of_order != self.first[&peer].out_of_order;
        let with_gaps: Vec<usize> =
            now.iter().filter(|&(&peer, info)| gaps(peer, info)).map(|(&peer, _)| peer).collect();
        let loses = |&peer: &usize| {
            now.get(&peer).is_some_and(|info| {
                let first = &self.first[&peer];
                let others = with_gaps.iter().filter(|&&other| other != peer).count();
                let arrives = info.segments_in != first.segments_in;
                info.data_segments_in != first.data_segments_in
                    || (info.sends_again && arrives)
                    || others >= OTHERS
            })
        };
        self.quiet.iter().copied().filter(loses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(watch.look(vec![2, 3, 4, 5], began).is_empty());
        let later = [
            healthy,
            (2, info(12, 9, 0, false)),
            (3, info(9, 9, 0, true)),
            (4, info(10, 10, 0, false)),
            (5, info(10, 9, 0, true)),
        ];
        assert_eq!(watch.look(vec![2, 3, 4, 5], later), [4, 5]);
    }

    #[test]
    fn gaps_of_many_others_show_that_many_send_to_this_host() {
        let mut watch = LossWatch::default();
        let all = |gaps: usize| {
            let others = (0..20).map(move |peer| (peer, info(50, 50, u32::from(peer < gaps), false)));
            others.chain([(20, info(9, 9, 1, false))])
        };
        assert!(watch.look(vec![20], all(0)).is_empty());
        assert!(watch.look(vec![20], all(7)).is_empty());
        assert_eq!(watch.look(vec![20], all(8)), [20]);
        // Nobody is quiet for a while: earlier gaps no longer count.
        assert!(watch.look(vec![], all(8)).is_empty());
        assert!(watch.look(vec![20], all(8)).is_empty());
    }

    #[test]
    fn what_arrived_before_a_peer_was_quiet_does_not_count() {
        let mut watch = LossWatch::default();
        assert!(watch.look(vec![1], [(1, info(5, 5, 0, true)), (2, info(5, 5, 0, true))]).is_empty());
        assert!(watch.look(vec![1, 2], [(1, info(5, 5, 0, true)), (2, info(9, 9, 0, true))]).is_empty());
        assert!(watch.look(vec![1, 2], [(1, None), (2, None)]).is_empty(), "not TCP");
    }
}
