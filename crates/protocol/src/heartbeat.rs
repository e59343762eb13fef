//! Signs of life, without a clock: who has been silent for too long, and to whom one is due.

use crate::fault::Trouble;
use crate::machine::Machine;
use crate::wire::HEADER;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often members show that they live, and how long others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A sign of life at least this often.
    pub interval: Duration,
    /// A peer that is silent for longer is at fault.
    pub silence: Duration,
}

impl Default for Patience {
    /// Every 0.4 s, and a second and a half: whoever is stopped is found within two seconds.
    fn default() -> Self {
        Self { interval: Duration::from_millis(400), silence: Duration::from_millis(1500) }
    }
}

/// When peers were heard, and when they heard from us, by their numbers. Times count from any one moment.
#[derive(Clone, Debug)]
pub struct Pulse {
    patience: Patience,
    last: Duration,
    /// When, of peers that have been heard.
    heard: BTreeMap<usize, Duration>,
    /// When, of peers that are there.
    said: BTreeMap<usize, Duration>,
    /// Messages that are coming in.
    coming: BTreeMap<usize, Coming>,
}

/// A message that is coming in from a peer: which one, and how far it was when.
#[derive(Clone, Copy, Debug)]
struct Coming {
    which: u32,
    bytes: usize,
    since: Duration,
}

/// What a look at a machine's peers has shown.
#[derive(Debug, Default)]
pub struct Look {
    /// Whether somebody gets a sign of life.
    pub told: bool,
    /// Whether the machine hears nobody, of two peers or more.
    pub cut_off: bool,
    /// Peers from which something has come of late.
    pub hears: Vec<u32>,
    /// Peers that are lost, and why.
    pub lost: Vec<(u32, Trouble)>,
}

impl Pulse {
    /// Nobody is there yet.
    pub fn new(patience: Patience, now: Duration) -> Self {
        let (heard, said, coming) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { patience, last: now, heard, said, coming }
    }

    /// A peer is there: it gets signs of life, and is watched once it has been heard.
    pub fn join(&mut self, peer: usize, now: Duration) {
        self.said.insert(peer, now);
    }

    /// A peer is heard; from now on it is watched.
    pub fn heard(&mut self, peer: usize, now: Duration) {
        self.heard.insert(peer, now);
    }

    /// A peer is watched no longer.
    pub fn leave(&mut self, peer: usize) {
        self.heard.remove(&peer);
        self.said.remove(&peer);
        self.coming.remove(&peer);
    }

    /// A peer hears from us.
    pub fn said(&mut self, peer: usize, now: Duration) {
        self.said.insert(peer, now);
    }

    /// Peers that a sign of life is due to. They count as told.
    pub fn due(&mut self, now: Duration) -> Vec<usize> {
        let interval = self.patience.interval;
        let due = self.said.iter_mut().filter(|(_, said)| now >= **said + interval);
        due.map(|(&peer, said)| {
            *said = now;
            peer
        })
        .collect()
    }

    /// Peers that have been silent for too long, and for how long. To be asked about every interval, after what came in has
    /// been read: whoever slept himself (was stopped, or never ran) gives others the time that he slept.
    pub fn silent(&mut self, now: Duration) -> Vec<(usize, Duration)> {
        let slept = now.saturating_sub(self.last + 2 * self.patience.interval);
        self.last = now;
        for coming in self.coming.values_mut() {
            coming.since = (coming.since + slept).min(now);
        }
        let mut silent = Vec::new();
        for (&peer, heard) in &mut self.heard {
            *heard = (*heard + slept).min(now);
            let silence = now - *heard;
            if silence > self.patience.silence {
                silent.push((peer, silence));
            }
        }
        silent
    }

    /// How far the message is that is coming in from a peer: which one it is, and how many bytes of it have come. For how long
    /// it has been stuck, if that is too long.
    ///
    /// Whoever is in the middle of a message says nothing else before its end. Bytes that come so slowly that they could be
    /// signs of life are none of it: some of it was lost, or its beginning was none. Where nothing comes at all, that is
    /// silence.
    fn stuck(&mut self, peer: usize, message: Option<(u32, usize)>, now: Duration) -> Option<Duration> {
        let Patience { interval, silence } = self.patience;
        let Some((which, bytes)) = message else {
            self.coming.remove(&peer);
            return None;
        };
        let signs = silence.as_nanos().div_ceil(interval.as_nanos().max(1)) as usize + 2;
        let coming = self.coming.entry(peer).or_insert(Coming { which, bytes, since: now });
        if coming.which != which || bytes > coming.bytes + signs * HEADER {
            *coming = Coming { which, bytes, since: now };
        }
        let (stuck, more) = (now.saturating_sub(coming.since), bytes > coming.bytes);
        (more && stuck > silence.saturating_sub(interval)).then_some(stuck)
    }

    /// Looks at the peers of a machine: gives those a sign of life that one is due to, and finds those that are silent, or
    /// stuck in a message, for too long. To be asked every [`Pulse::interval`], after what came in has been read. Who is lost
    /// is watched no longer.
    pub fn look(&mut self, machine: &mut impl Machine, peers: &[u32], now: Duration) -> Look {
        let due = self.due(now);
        due.iter().for_each(|&peer| machine.beat(peer as u32));
        for &peer in peers {
            // Whoever is not listened to cannot be heard; nor is it watched before it has been.
            if !machine.reads(peer) {
                self.heard.entry(peer as usize).and_modify(|heard| *heard = now);
                self.coming.remove(&(peer as usize));
            }
        }
        let silent = self.silent(now);
        let cut_off = self.cut_off(now, None);
        let hears =
            peers.iter().copied().filter(|&peer| machine.reads(peer) && self.hears(peer as usize, now));
        let hears = hears.collect();
        let mut lost: Vec<(u32, Trouble)> =
            silent.into_iter().map(|(peer, silence)| (peer as u32, Trouble::silent(silence))).collect();
        for &peer in peers {
            let message = machine.coming(peer).filter(|_| machine.reads(peer));
            if let Some(stuck) = self.stuck(peer as usize, message, now)
                && lost.iter().all(|(other, _)| *other != peer)
            {
                lost.push((peer, Trouble::stuck(stuck)));
            }
        }
        lost.iter().for_each(|&(peer, _)| self.leave(peer as usize));
        Look { told: !due.is_empty(), cut_off, hears, lost }
    }

    /// Whether all of two or more peers, but for `but`, have been silent for about as long as is too long: then it is not some of
    /// them that are cut off, but this one, or all are gone. Signs come an interval apart, so that not all are found silent at once.
    pub fn cut_off(&self, now: Duration, but: Option<usize>) -> bool {
        let mut peers = 0;
        let mut others = self.heard.keys().filter(|&&peer| Some(peer) != but);
        others.all(|&peer| {
            peers += 1;
            !self.hears(peer, now)
        }) && peers >= 2
    }

    /// Whether something has come from a peer of late: where one is found silent for too long, all who still hear it have heard
    /// it since its signs of life stopped to come there, which are an interval apart.
    pub fn hears(&self, peer: usize, now: Duration) -> bool {
        let most = self.patience.silence.saturating_sub(2 * self.patience.interval);
        self.heard.get(&peer).is_some_and(|&heard| now.saturating_sub(heard) <= most)
    }

    /// How often others show that they live, and how long they are waited for.
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// How often to ask.
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
    fn silence_is_found_and_signs_are_due() {
        let mut pulse = Pulse::new(Patience::default(), ms(0));
        assert!(pulse.silent(ms(5000)).is_empty() && pulse.due(ms(5000)).is_empty());
        (0..2).for_each(|peer| pulse.join(peer, ms(4000)));
        assert_eq!(pulse.due(ms(5000)), [0, 1]);
        assert!(pulse.due(ms(5100)).is_empty() && pulse.silent(ms(5100)).is_empty());
        pulse.heard(0, ms(5000));
        pulse.heard(1, ms(5000));
        let mut found = None;
        for now in (5200..8000).step_by(200) {
            pulse.heard(1, ms(now));
            if let Some(&silent) = pulse.silent(ms(now)).first() {
                found = found.or(Some((now, silent)));
            }
        }
        assert_eq!(found, Some((6600, (0, ms(1600)))));
        pulse.leave(0);
        assert!(pulse.silent(ms(8000)).is_empty());
    }

    #[test]
    fn whoever_hears_nobody_is_cut_off_himself() {
        let mut pulse = Pulse::new(Patience::default(), ms(0));
        assert!(!pulse.cut_off(ms(9000), None), "nobody has been heard yet");
        pulse.heard(1, ms(0));
        assert!(!pulse.cut_off(ms(9000), None), "one peer may be dead");
        pulse.heard(2, ms(300));
        assert!(pulse.cut_off(ms(1600), None));
        assert!(!pulse.cut_off(ms(800), None));
        pulse.heard(0, ms(1500));
        assert!(!pulse.cut_off(ms(1600), None) && pulse.cut_off(ms(1600), Some(0)));
    }

    #[test]
    fn a_message_that_signs_of_life_alone_make_longer_is_stuck() {
        let found = |step: usize| {
            let mut pulse = Pulse::new(Patience::default(), ms(0));
            (0..10_000u64).step_by(200).find(|&now| {
                let bytes = 5 + now as usize / 400 * step;
                let stuck = pulse.stuck(1, Some((7, bytes)), ms(now));
                pulse.silent(ms(now));
                stuck.is_some()
            })
        };
        assert_eq!(found(0), None, "that is silence");
        assert!(found(HEADER).is_some_and(|now| now <= 1400), "{:?}", found(HEADER));
        assert_eq!(found(100), None);
        let mut pulse = Pulse::new(Patience::default(), ms(0));
        for now in (0..10_000).step_by(200) {
            // One message after the other, and nothing between two.
            let message = (now % 1000 > 0).then_some(((now / 1000) as u32, 3));
            assert_eq!(pulse.stuck(1, message, ms(now)), None);
        }
    }

    #[test]
    fn whoever_slept_blames_nobody() {
        let mut pulse = Pulse::new(Patience::default(), ms(0));
        pulse.heard(0, ms(0));
        pulse.silent(ms(200));
        assert!(pulse.silent(ms(60_000)).is_empty());
        assert!(pulse.silent(ms(60_400)).is_empty());
        assert!(!pulse.silent(ms(61_600)).is_empty());
    }
}
