//! Heartbeats, without a clock: decides which peers are due a heartbeat, and which have been silent or stuck for too
//! long.

use crate::fault::Trouble;
use crate::link::PartialMessage;
use crate::machine::Machine;
use crate::wire::HEADER;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often members send heartbeats, and how long others wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest time between two heartbeats to a peer.
    pub interval: Duration,
    /// A peer that is silent for longer is at fault.
    pub silence: Duration,
}

/// How many times as long a peer may be silent whose packets the network loses. TCP doubles the time after which it sends
/// again what was lost, from 0.2 s on.
const LOSSY: u32 = 10;

impl Patience {
    /// A peer heard from within this window is alive. It is `silence` minus two intervals: such a peer sent something
    /// after any silence that another machine reports now had begun.
    pub fn recent(&self) -> Duration {
        self.silence.saturating_sub(2 * self.interval)
    }
}

impl Default for Patience {
    /// A heartbeat every 0.4 s, and 1.5 s of silence: a process that stops is found within two seconds.
    fn default() -> Self {
        Self { interval: Duration::from_millis(400), silence: Duration::from_millis(1500) }
    }
}

/// When each peer was last heard, and when something was last sent to it, by peer number. All times count from the
/// same arbitrary moment.
#[derive(Clone, Debug)]
pub struct Heartbeats {
    patience: Patience,
    /// When silence was last checked.
    last: Duration,
    /// When each peer was last heard. A peer has an entry from its first message on.
    last_received: BTreeMap<usize, Duration>,
    /// When something was last sent to each peer that gets heartbeats.
    last_sent: BTreeMap<usize, Duration>,
    /// Messages of which a part has arrived, by peer.
    arriving: BTreeMap<usize, Arriving>,
    /// Peers whose packets the network loses.
    lossy: Vec<usize>,
}

/// A message of which a part has arrived: its number, and its size when it last grew by more than heartbeats can.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    number: u32,
    bytes: usize,
    since: Duration,
}

/// What a check of a machine's peers has found.
#[derive(Debug, Default)]
pub struct PeerCheck {
    /// Whether some peer was sent a heartbeat.
    pub sent_heartbeats: bool,
    /// Whether the machine has two peers or more and hears none of them.
    pub cut_off: bool,
    /// Peers that were heard recently.
    pub hears: Vec<u32>,
    /// Peers that are lost.
    pub lost: Vec<LostPeer>,
}

/// A peer that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPeer {
    /// The peer, by its number on the machine.
    pub peer: u32,
    /// Why it is lost.
    pub trouble: Trouble,
}

impl Heartbeats {
    /// Starts without peers.
    pub fn new(patience: Patience, now: Duration) -> Self {
        let (last_received, last_sent, arriving) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { patience, last: now, last_received, last_sent, arriving, lossy: Vec::new() }
    }

    /// Adds a peer: it gets heartbeats. Its silence counts only once it has been heard.
    pub fn join(&mut self, peer: usize, now: Duration) {
        self.last_sent.insert(peer, now);
    }

    /// Records that a peer was heard; from its first message on, its silence counts.
    pub fn heard(&mut self, peer: usize, now: Duration) {
        self.last_received.insert(peer, now);
    }

    /// Returns the peers that have missed a heartbeat. Whether the network loses their packets is worth a look.
    pub fn quiet(&self, now: Duration) -> Vec<usize> {
        let missed = |heard: Duration| now.saturating_sub(heard) > 2 * self.patience.interval;
        self.last_received.iter().filter(|&(_, &heard)| missed(heard)).map(|(&peer, _)| peer).collect()
    }

    /// Sets the peers whose packets the network loses: they may be silent for [`LOSSY`] times as long.
    pub fn set_lossy(&mut self, peers: Vec<usize>) {
        self.lossy = peers;
    }

    /// Removes a peer.
    pub fn leave(&mut self, peer: usize) {
        self.last_received.remove(&peer);
        self.last_sent.remove(&peer);
        self.arriving.remove(&peer);
    }

    /// Records that something was sent to a peer.
    pub fn sent(&mut self, peer: usize, now: Duration) {
        self.last_sent.insert(peer, now);
    }

    /// Returns the peers that are due a heartbeat, and counts it as sent.
    pub fn due(&mut self, now: Duration) -> Vec<usize> {
        let interval = self.patience.interval;
        let due = self.last_sent.iter_mut().filter(|(_, sent)| now >= **sent + interval);
        due.map(|(&peer, sent)| {
            *sent = now;
            peer
        })
        .collect()
    }

    /// Returns the peers that have been silent for too long, and for how long. Call once per interval, after reading
    /// what has arrived. If this process itself slept (it was stopped, or not scheduled), the time that it slept does
    /// not count as silence of its peers.
    pub fn silent(&mut self, now: Duration) -> Vec<(usize, Duration)> {
        let slept = now.saturating_sub(self.last + 2 * self.patience.interval);
        self.last = now;
        for arriving in self.arriving.values_mut() {
            arriving.since = (arriving.since + slept).min(now);
        }
        let mut silent = Vec::new();
        for (&peer, heard) in &mut self.last_received {
            *heard = (*heard + slept).min(now);
            let silence = now - *heard;
            let more = if self.lossy.contains(&peer) { LOSSY } else { 1 };
            if silence > self.patience.silence * more {
                silent.push((peer, silence));
            }
        }
        silent
    }

    /// For how long `message`, which is arriving from a peer, has been stuck, if that is too long.
    ///
    /// A peer that is sending a message sends nothing else until the message ends. If a message grows by no more
    /// bytes than the heartbeats of that time have, the bytes are taken for heartbeats: some of the message was lost,
    /// or its header was not one. A message that does not grow at all counts as silence, which [`Heartbeats::silent`]
    /// finds.
    fn stuck(&mut self, peer: usize, message: Option<PartialMessage>, now: Duration) -> Option<Duration> {
        let Patience { interval, silence } = self.patience;
        let Some(PartialMessage { number, bytes }) = message else {
            self.arriving.remove(&peer);
            return None;
        };
        let heartbeats = silence.as_nanos().div_ceil(interval.as_nanos().max(1)) as usize + 2;
        let arriving = self.arriving.entry(peer).or_insert(Arriving { number, bytes, since: now });
        if arriving.number != number || bytes > arriving.bytes + heartbeats * HEADER {
            *arriving = Arriving { number, bytes, since: now };
        }
        let (stuck, more) = (now.saturating_sub(arriving.since), bytes > arriving.bytes);
        (more && stuck > silence.saturating_sub(interval)).then_some(stuck)
    }

    /// Checks the peers of a machine. Sends heartbeats to those that are due one, and returns the peers that have
    /// been silent, or stuck in a message, for too long; these are removed. Call once per [`Heartbeats::interval`],
    /// after reading what has arrived.
    pub fn check(&mut self, machine: &mut impl Machine, peers: &[u32], now: Duration) -> PeerCheck {
        let due = self.due(now);
        due.iter().for_each(|&peer| machine.send_heartbeat(peer as u32));
        for &peer in peers {
            // A peer from which the machine does not read cannot be heard, so its silence does not count.
            if !machine.reads(peer) {
                self.last_received.entry(peer as usize).and_modify(|heard| *heard = now);
                self.arriving.remove(&(peer as usize));
            }
        }
        let silent = self.silent(now);
        let cut_off = self.cut_off(now, None);
        let hears =
            peers.iter().copied().filter(|&peer| machine.reads(peer) && self.hears(peer as usize, now));
        let hears = hears.collect();
        let silent = silent.into_iter().map(|(peer, silence)| (peer as u32, Trouble::silent(silence)));
        let mut lost: Vec<LostPeer> = silent.map(|(peer, trouble)| LostPeer { peer, trouble }).collect();
        for &peer in peers {
            let message = machine.coming(peer).filter(|_| machine.reads(peer));
            if let Some(stuck) = self.stuck(peer as usize, message, now)
                && lost.iter().all(|other| other.peer != peer)
            {
                lost.push(LostPeer { peer, trouble: Trouble::stuck(stuck) });
            }
        }
        lost.iter().for_each(|lost| self.leave(lost.peer as usize));
        PeerCheck { sent_heartbeats: !due.is_empty(), cut_off, hears, lost }
    }

    /// Whether two peers or more, without `but`, have all been silent for about as long as the limit. Then this
    /// machine is cut off, or all others are gone. Heartbeats arrive an interval apart, so not all peers reach the
    /// limit at once.
    pub fn cut_off(&self, now: Duration, but: Option<usize>) -> bool {
        let mut peers = 0;
        let mut others = self.last_received.keys().filter(|&&peer| Some(peer) != but);
        others.all(|&peer| {
            peers += 1;
            !self.hears(peer, now)
        }) && peers >= 2
    }

    /// Whether a peer was heard within [`Patience::recent`].
    pub fn hears(&self, peer: usize, now: Duration) -> bool {
        self.last_received
            .get(&peer)
            .is_some_and(|&heard| now.saturating_sub(heard) <= self.patience.recent())
    }

    /// How often others send heartbeats, and how long to wait for them.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// How often to call [`Heartbeats::check`].
    pub fn interval(&self) -> Duration {
        self.patience.interval / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn silent_peers_are_found_and_heartbeats_are_due() {
        let mut heartbeats = Heartbeats::new(Patience::default(), ms(0));
        assert!(heartbeats.silent(ms(5000)).is_empty() && heartbeats.due(ms(5000)).is_empty());
        (0..2).for_each(|peer| heartbeats.join(peer, ms(4000)));
        assert_eq!(heartbeats.due(ms(5000)), [0, 1]);
        assert!(heartbeats.due(ms(5100)).is_empty() && heartbeats.silent(ms(5100)).is_empty());
        heartbeats.heard(0, ms(5000));
        heartbeats.heard(1, ms(5000));
        let mut found = None;
        for now in (5200..8000).step_by(200) {
            heartbeats.heard(1, ms(now));
            if let Some(&silent) = heartbeats.silent(ms(now)).first() {
                found = found.or(Some((now, silent)));
            }
        }
        assert_eq!(found, Some((6600, (0, ms(1600)))));
        heartbeats.leave(0);
        assert!(heartbeats.silent(ms(8000)).is_empty());
    }

    #[test]
    fn silence_may_last_longer_where_the_network_loses_packets() {
        let mut heartbeats = Heartbeats::new(Patience::default(), ms(0));
        (0..2).for_each(|peer| heartbeats.heard(peer, ms(0)));
        assert!(heartbeats.quiet(ms(800)).is_empty());
        assert_eq!(heartbeats.quiet(ms(900)), [0, 1]);
        heartbeats.set_lossy(vec![1]);
        let first = |heartbeats: &mut Heartbeats, from: u64, peer| {
            (from..30_000)
                .step_by(100)
                .find(|&now| heartbeats.silent(ms(now)).iter().any(|&(silent, _)| silent == peer))
        };
        assert_eq!(first(&mut heartbeats, 100, 0), Some(1600));
        assert_eq!(first(&mut heartbeats, 1600, 1), Some(15_100));
    }

    #[test]
    fn a_machine_that_hears_nobody_is_cut_off() {
        let mut heartbeats = Heartbeats::new(Patience::default(), ms(0));
        assert!(!heartbeats.cut_off(ms(9000), None), "nobody has been heard yet");
        heartbeats.heard(1, ms(0));
        assert!(!heartbeats.cut_off(ms(9000), None), "one peer may be dead");
        heartbeats.heard(2, ms(300));
        assert!(heartbeats.cut_off(ms(1600), None));
        assert!(!heartbeats.cut_off(ms(800), None));
        heartbeats.heard(0, ms(1500));
        assert!(!heartbeats.cut_off(ms(1600), None) && heartbeats.cut_off(ms(1600), Some(0)));
    }

    #[test]
    fn a_message_that_grows_only_by_heartbeats_is_stuck() {
        let found = |step: usize| {
            let mut heartbeats = Heartbeats::new(Patience::default(), ms(0));
            (0..10_000u64).step_by(200).find(|&now| {
                let bytes = 5 + now as usize / 400 * step;
                let stuck = heartbeats.stuck(1, Some(PartialMessage { number: 7, bytes }), ms(now));
                heartbeats.silent(ms(now));
                stuck.is_some()
            })
        };
        assert_eq!(found(0), None, "that is silence");
        assert!(found(HEADER).is_some_and(|now| now <= 1400), "{:?}", found(HEADER));
        assert_eq!(found(100), None);
        let mut heartbeats = Heartbeats::new(Patience::default(), ms(0));
        for now in (0..10_000).step_by(200) {
            // Message after message, with a pause before each.
            let message =
                (now % 1000 > 0).then_some(PartialMessage { number: (now / 1000) as u32, bytes: 3 });
            assert_eq!(heartbeats.stuck(1, message, ms(now)), None);
        }
    }

    #[test]
    fn a_machine_that_slept_blames_nobody() {
        let mut heartbeats = Heartbeats::new(Patience::default(), ms(0));
        heartbeats.heard(0, ms(0));
        heartbeats.silent(ms(200));
        assert!(heartbeats.silent(ms(60_000)).is_empty());
        assert!(heartbeats.silent(ms(60_400)).is_empty());
        assert!(!heartbeats.silent(ms(61_600)).is_empty());
    }
}
