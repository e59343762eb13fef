//! The handshake at the start of every connection. Two processes tell each other their protocol, job and role, and
//! prove to each other that they have the job's shared key. No sockets or clocks.
//!
//! ```text
//! initiator                              acceptor
//!   Hello { protocol, job, role, nonce }  ->
//!                                        <-  Challenge { nonce, proof }      or Refused { why }
//!   Proof { proof }                       ->
//!                                        <-  Accepted                        or Refused { why }
//! ```
//!
//! A proof is the HMAC-SHA-256 (RFC 2104) of a label for its side, the hash of the hello as it was sent, and the
//! acceptor's nonce. Both nonces are 32 random bytes, so a recorded handshake cannot be replayed. Without a key the
//! proofs are empty.
//!
//! The first two fields of a hello, `name` and `protocol`, and the form of a refusal are the same in every version.
//! Two different versions can thus tell each other that they differ.
//!
//! What follows the handshake is neither encrypted nor protected against injection. A shared key keeps strangers out
//! of a network on which only trusted machines can write. On other networks use TLS
//! (`syncline_transport::certificates`); the same handshake then runs within TLS, without proofs.

use crate::codec::{Decoder, encode};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::SocketAddr;
use zeroize::Zeroize;

/// The version of the protocol that this side speaks: frames, messages and handshake.
pub const PROTOCOL: u32 = 4;

/// Most bytes of a message until the handshake is complete.
pub const MAX_MESSAGE_BYTES: usize = 4096;

const NAME: &str = "syncline";

/// A secret that all members of a job share.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Drop for Key {
    /// Erases the key from memory.
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Key {
    /// Makes a key from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Key {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// How the two sides of a handshake authenticate each other.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// Not at all.
    None,
    /// Both sides prove that they have the job's key.
    Key(Key),
    /// Both sides have shown their certificates on the TLS connection below.
    Tls,
}

impl Authentication {
    const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Key(_) => "key",
            Self::Tls => "tls",
        }
    }

    /// The proof of a side that it has the key; empty without a key.
    fn proof(&self, side: &str, transcript: &[u8]) -> Vec<u8> {
        self.mac(side, transcript).map_or(Vec::new(), |mac| mac.finalize().into_bytes().to_vec())
    }

    /// Whether a proof is right, in constant time. Without a key every proof is.
    fn verify(&self, side: &str, transcript: &[u8], proof: &[u8]) -> bool {
        self.mac(side, transcript).is_none_or(|mac| mac.verify_slice(proof).is_ok())
    }

    fn mac(&self, side: &str, transcript: &[u8]) -> Option<Hmac<Sha256>> {
        let Self::Key(key) = self else { return None };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes keys of any length");
        mac.update(side.as_bytes());
        mac.update(transcript);
        Some(mac)
    }
}

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Role {
    /// A member that joins its job.
    Member {
        /// The member's rank.
        rank: u32,
        /// The number of members that it expects.
        world: u32,
        /// Connections between each pair of members.
        lanes: u32,
        /// The rank that coordinates the job, as far as the member knows.
        coordinator: u32,
    },
    /// A member of a running elastic job that has lost its coordinator, and asks another member to coordinate.
    Survivor {
        /// The member's rank.
        rank: u32,
        /// The other member's rank.
        coordinator: u32,
        /// The last epoch of which the member knows.
        epoch: u16,
    },
    /// The coordinator of a running elastic job. It tells the process at the address of the first coordinator that it now
    /// coordinates the job.
    Successor {
        /// The rank in whose process it runs.
        rank: u32,
        /// The rank of the first coordinator.
        first: u32,
        /// The addresses on which it listens.
        addresses: Vec<SocketAddr>,
    },
    /// A worker that joins its job on a hub.
    Worker {
        /// The worker's rank.
        rank: u32,
    },
    /// A worker's connection to a core of a hub.
    Core {
        /// The worker's rank.
        rank: u32,
        /// The job's number at the hub.
        number: u32,
        /// The ticket that the hub gave the worker.
        ticket: u64,
        /// The core's number.
        core: u32,
    },
    /// A hub's connection to the same core of the hub in another rack.
    Rack {
        /// The initiator's rack.
        rack: u32,
        /// The core's number.
        core: u32,
    },
    /// A client that asks a hub for its status.
    StatusClient,
    /// A client that asks a hub to save its jobs.
    SaveClient,
    /// A lane's connection between two members.
    Lane {
        /// The initiator's rank.
        from: u32,
        /// The acceptor's rank.
        to: u32,
        /// The lane's number.
        lane: u32,
        /// The epoch that the connection belongs to.
        epoch: u16,
    },
}

/// The first message, from the initiator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Always `syncline`; rejects connections of other programs.
    name: String,
    /// The version of the protocol.
    protocol: u32,
    /// The name of the initiator's kind of authentication.
    trust: String,
    /// The job's name. An acceptor for one job refuses members of others.
    pub job: String,
    /// What the connection is for.
    pub role: Role,
    nonce: String,
}

/// The fields that a hello has in every version. They are read first, since the others may differ.
#[derive(Deserialize)]
struct Version {
    name: String,
    protocol: u32,
}

impl Version {
    /// Checks that the other side speaks the same protocol.
    fn check(&self) -> Result<(), String> {
        if self.name != NAME {
            return Err(format!("the hello does not name {NAME}"));
        }
        if self.protocol != PROTOCOL {
            let (theirs, ours) = (self.protocol, PROTOCOL);
            return Err(format!(
                "the connecting side speaks protocol version {theirs}, the accepting side version {ours}: install \
                 the same release of {NAME} on both"
            ));
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
enum Answer {
    Challenge {
        nonce: String,
        proof: String,
    },
    Accepted,
    Refused {
        why: String,
        /// Whether another attempt would be refused, too.
        #[serde(default = "permanent")]
        permanent: bool,
    },
}

fn permanent() -> bool {
    true
}

#[derive(Serialize, Deserialize)]
struct Proof {
    proof: String,
}

/// Thirty-two random bytes, used once.
pub type Nonce = [u8; 32];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// What proofs authenticate: the hash of the hello as it was sent, and the acceptor's nonce.
fn transcript(hello: &[u8], nonce: &str) -> Vec<u8> {
    [Sha256::digest(hello).as_slice(), nonce.as_bytes()].concat()
}

/// What a side of a handshake does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for more bytes.
    Wait,
    /// Send these bytes, and wait for more.
    Send(Vec<u8>),
    /// The handshake succeeded: send these bytes, if any.
    Done(Vec<u8>),
}

/// Why a handshake failed, on the initiator's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeError {
    /// A clause that says why.
    pub why: String,
    /// Whether another attempt would fail, too: the acceptor refused for good, or cannot be authenticated.
    pub permanent: bool,
}

impl From<String> for HandshakeError {
    fn from(why: String) -> Self {
        Self { why, permanent: false }
    }
}

/// Why an acceptor refuses an initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A clause that says why.
    pub why: String,
    /// Whether another attempt would be refused, too.
    pub permanent: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self { why, permanent: true }
    }
}

/// An initiator that the acceptor has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A clause that says why.
    pub why: String,
    /// The bytes to send to it; empty if it does not speak this protocol at all.
    pub answer: Vec<u8>,
}

/// The side that connects.
#[derive(Debug)]
pub struct Initiator {
    authentication: Authentication,
    hello: Vec<u8>,
    decoder: Decoder,
    proved: bool,
}

impl Initiator {
    /// Starts a handshake. Also returns the bytes to send first.
    pub fn new(authentication: Authentication, job: &str, role: Role, nonce: Nonce) -> (Self, Vec<u8>) {
        let hello = encode(&Hello {
            name: NAME.to_owned(),
            protocol: PROTOCOL,
            trust: authentication.name().to_owned(),
            job: job.to_owned(),
            role,
            nonce: hex(&nonce),
        });
        let initiator = Self {
            authentication,
            hello: hello[4..].to_vec(),
            decoder: Decoder::new(MAX_MESSAGE_BYTES),
            proved: false,
        };
        (initiator, hello)
    }

    /// How many bytes to read next at most, so that none of them follows the handshake.
    pub fn wants(&self) -> usize {
        self.decoder.wants()
    }

    /// Whether this side has sent its proof, so that the acceptor may have accepted already.
    pub const fn has_proved(&self) -> bool {
        self.proved
    }

    /// Takes the bytes that the acceptor has sent.
    ///
    /// # Errors
    /// Why the acceptor refused, or cannot be authenticated.
    pub fn received(&mut self, bytes: &[u8]) -> Result<Next, HandshakeError> {
        self.decoder.feed(bytes);
        if self.decoder.gets_tls() {
            let why = "speaks TLS: use certificates everywhere, or nowhere".to_owned();
            return Err(HandshakeError { why, permanent: true });
        }
        let Some(answer) = self.decoder.message::<Answer>()? else { return Ok(Next::Wait) };
        match answer {
            Answer::Refused { why, permanent } => {
                Err(HandshakeError { why: format!("refused: {why}"), permanent })
            }
            Answer::Challenge { nonce, proof } if !self.proved => {
                let transcript = transcript(&self.hello, &nonce);
                let proof = unhex(&proof).unwrap_or_default();
                if !self.authentication.verify("acceptor", &transcript, &proof) {
                    return Err(HandshakeError {
                        why: "does not have the key of this job".to_owned(),
                        permanent: true,
                    });
                }
                self.proved = true;
                let proof = hex(&self.authentication.proof("initiator", &transcript));
                Ok(Next::Send(encode(&Proof { proof })))
            }
            Answer::Accepted if self.proved => Ok(Next::Done(Vec::new())),
            Answer::Challenge { .. } | Answer::Accepted => {
                Err("sent a handshake message out of order".to_owned().into())
            }
        }
    }
}

/// The side that is connected to.
#[derive(Debug)]
pub struct Acceptor {
    authentication: Authentication,
    /// The only job whose members are accepted; without it, those of any job are.
    job: Option<String>,
    nonce: String,
    decoder: Decoder,
    hello: Option<(Hello, Vec<u8>)>,
}

impl Acceptor {
    /// Waits for a hello from a member of `job`, or of any job.
    pub fn new(authentication: Authentication, job: Option<&str>, nonce: Nonce) -> Self {
        Self {
            authentication,
            job: job.map(str::to_owned),
            nonce: hex(&nonce),
            decoder: Decoder::new(MAX_MESSAGE_BYTES),
            hello: None,
        }
    }

    /// How many bytes to read next at most, so that none of them follows the handshake.
    pub fn wants(&self) -> usize {
        self.decoder.wants()
    }

    /// Takes the bytes that the initiator has sent. Calls `admit` once the initiator is authenticated; it decides
    /// whether the initiator's role is available.
    ///
    /// # Errors
    /// Why the initiator was refused.
    pub fn received(
        &mut self,
        bytes: &[u8],
        admit: impl FnOnce(&Hello) -> Result<(), Refusal>,
    ) -> Result<Next, Rejection> {
        let refuse_with = |Refusal { why, permanent }: Refusal| Rejection {
            why: why.clone(),
            answer: encode(&Answer::Refused { why, permanent }),
        };
        let refuse = |why: String| refuse_with(why.into());
        let without_answer = |why: String| Rejection { why, answer: Vec::new() };
        self.decoder.feed(bytes);
        match &self.hello {
            None if self.decoder.gets_tls() => Err(refuse(
                "this side does not speak TLS: use certificates everywhere, or nowhere".to_owned(),
            )),
            None => {
                let Some(text) = self.decoder.next_bytes().map_err(without_answer)? else {
                    return Ok(Next::Wait);
                };
                let version: Version = serde_json::from_slice(&text)
                    .map_err(|_| without_answer("sent something other than a hello".to_owned()))?;
                version.check().map_err(refuse)?;
                let hello: Hello = serde_json::from_slice(&text)
                    .map_err(|error| refuse(format!("the hello is invalid ({error})")))?;
                self.check_hello(&hello).map_err(refuse)?;
                let transcript = transcript(&text, &self.nonce);
                let proof = hex(&self.authentication.proof("acceptor", &transcript));
                self.hello = Some((hello, transcript));
                Ok(Next::Send(encode(&Answer::Challenge { nonce: self.nonce.clone(), proof })))
            }
            Some((hello, transcript)) => {
                let Some(Proof { proof }) = self.decoder.message().map_err(without_answer)? else {
                    return Ok(Next::Wait);
                };
                let proof = unhex(&proof).unwrap_or_default();
                if !self.authentication.verify("initiator", transcript, &proof) {
                    return Err(refuse("the key does not match this job's key".to_owned()));
                }
                admit(hello).map_err(refuse_with)?;
                Ok(Next::Done(encode(&Answer::Accepted)))
            }
        }
    }

    /// Checks that the hello has this side's kind of authentication, and a job that this side accepts.
    fn check_hello(&self, hello: &Hello) -> Result<(), String> {
        if hello.trust != self.authentication.name() {
            let (theirs, ours) = (&hello.trust, self.authentication.name());
            return Err(format!(
                "the connecting side authenticates with `{theirs}`, the accepting side with `{ours}`: use the same on \
                 both"
            ));
        }
        if self.job.as_ref().is_some_and(|job| *job != hello.job) {
            return Err("this process serves a job with a different name".to_owned());
        }
        Ok(())
    }

    /// The initiator's job, once its hello has arrived.
    pub fn job(&self) -> Option<&str> {
        self.hello.as_ref().map(|(hello, _)| hello.job.as_str())
    }

    /// The initiator's role, once its hello has arrived.
    pub fn role(&self) -> Option<&Role> {
        self.hello.as_ref().map(|(hello, _)| &hello.role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROLE: Role = Role::Member { rank: 1, world: 4, lanes: 1, coordinator: 0 };

    fn key(byte: u8) -> Authentication {
        Authentication::Key(Key::new([byte; 32]))
    }

    type Side = Result<(), String>;

    /// Runs a handshake. Returns the outcome for the initiator and for the acceptor: the error "nothing" for a side
    /// without one.
    fn run(
        mut initiator: (Initiator, Vec<u8>),
        mut acceptor: Acceptor,
        admit: impl Fn(&Hello) -> Result<(), String>,
    ) -> (Side, Side) {
        let mut bytes = std::mem::take(&mut initiator.1);
        let (mut here, mut there) = (None, None);
        loop {
            let answer = match acceptor.received(&bytes, |hello| Ok(admit(hello)?)) {
                Ok(Next::Wait) => Vec::new(),
                Ok(Next::Send(answer)) => answer,
                Ok(Next::Done(answer)) => {
                    there = Some(Ok(()));
                    answer
                }
                Err(Rejection { why, answer }) => {
                    there = Some(Err(why));
                    answer
                }
            };
            if answer.is_empty() {
                break;
            }
            match initiator.0.received(&answer) {
                Ok(Next::Send(next)) => bytes = next,
                Ok(Next::Done(_)) => here = Some(Ok(())),
                Ok(Next::Wait) => break,
                Err(shut) => here = Some(Err(shut.why)),
            }
            if here.is_some() {
                break;
            }
        }
        (here.unwrap_or(Err("nothing".to_owned())), there.unwrap_or(Err("nothing".to_owned())))
    }

    fn begin(authentication: Authentication, job: &str) -> (Initiator, Vec<u8>) {
        Initiator::new(authentication, job, ROLE, [1; 32])
    }

    #[test]
    fn sides_that_agree_accept_each_other() {
        for trust in [Authentication::None, key(7)] {
            let acceptor = Acceptor::new(trust.clone(), Some("job"), [2; 32]);
            assert_eq!(run(begin(trust, "job"), acceptor, |_| Ok(())), (Ok(()), Ok(())));
        }
    }

    #[test]
    fn sides_that_differ_get_the_reason_of_their_refusal() {
        for (trust, job, here, there) in [
            (key(8), "job", "does not have the key", "nothing"),
            (Authentication::None, "job", "with `none`, the accepting side with `key`", "with `none`"),
            (key(7), "other", "a different name", "a different name"),
        ] {
            let (initiator, acceptor) =
                run(begin(trust, job), Acceptor::new(key(7), Some("job"), [2; 32]), |_| Ok(()));
            assert!(initiator.unwrap_err().contains(here));
            assert!(acceptor.unwrap_err().contains(there));
        }
        let refuse_rank = |_: &Hello| Err("rank 1 is taken".to_owned());
        let (initiator, _) =
            run(begin(key(7), "job"), Acceptor::new(key(7), Some("job"), [2; 32]), refuse_rank);
        assert_eq!(initiator, Err("refused: rank 1 is taken".to_owned()));
    }

    /// What an acceptor of this version answers to a hello.
    fn answer(hello: &serde_json::Value) -> Result<Next, Rejection> {
        let mut acceptor = Acceptor::new(Authentication::None, Some("job"), [2; 32]);
        acceptor.received(&encode(hello), |_| Ok(()))
    }

    /// Fault: a process of another version connects, whatever else its hello contains -> it is refused with both versions
    #[test]
    fn another_version_is_refused_with_both_versions() {
        let other = PROTOCOL + 1;
        let role = serde_json::json!({ "is": "something new", "of": [1, 2] });
        for hello in [
            serde_json::json!({ "name": NAME, "protocol": other }),
            serde_json::json!({ "role": role, "protocol": other, "name": NAME, "more": { "and": "more" } }),
            serde_json::json!({ "name": NAME, "protocol": other, "job": 7, "role": "member", "nonce": null }),
            serde_json::json!({ "name": NAME, "protocol": 0, "trust": "none", "job": "job", "nonce": "00" }),
        ] {
            let Rejection { why, answer: refusal } = answer(&hello).unwrap_err();
            let theirs = &hello["protocol"];
            assert!(
                why.contains(&format!(
                    "speaks protocol version {theirs}, the accepting side version {PROTOCOL}:"
                )),
                "{why}"
            );
            let (mut initiator, _) = begin(Authentication::None, "job");
            let shut = initiator.received(&refusal).unwrap_err();
            assert!(shut.permanent && shut.why == format!("refused: {why}"), "{shut:?}");
        }
    }

    #[test]
    fn a_refusal_from_another_version_is_read() {
        let (mut initiator, _) = begin(Authentication::None, "job");
        let refusal = serde_json::json!({ "is": "refused", "why": "it speaks another protocol", "more": [] });
        let shut = initiator.received(&encode(&refusal)).unwrap_err();
        assert_eq!(
            shut,
            HandshakeError { why: "refused: it speaks another protocol".to_owned(), permanent: true }
        );
    }

    #[test]
    fn an_invalid_hello_of_this_version_is_refused_with_the_reason() {
        let (_, bytes) = begin(Authentication::None, "job");
        let mut hello: serde_json::Value = serde_json::from_slice(&bytes[4..]).unwrap();
        assert!(matches!(answer(&hello), Ok(Next::Send(_))));
        hello["role"]["is"] = "king".into();
        let Rejection { why, answer: refusal } = answer(&hello).unwrap_err();
        assert!(why.contains("is invalid") && why.contains("king"), "{why}");
        assert!(!refusal.is_empty());
        // A hello without a name and a version gets no answer.
        for stranger in [serde_json::json!({ "name": 3 }), serde_json::json!(["GET", "/"])] {
            assert!(answer(&stranger).unwrap_err().answer.is_empty());
        }
    }

    #[test]
    fn a_wrong_proof_is_refused_whatever_its_length() {
        for proof in ["", "00", &"00".repeat(32), &"00".repeat(33), "zz", "ünü"] {
            let (_, hello) = begin(key(7), "job");
            let mut acceptor = Acceptor::new(key(7), Some("job"), [2; 32]);
            assert!(matches!(acceptor.received(&hello, |_| Ok(())), Ok(Next::Send(_))));
            let refused = acceptor.received(&encode(&Proof { proof: proof.to_owned() }), |_| Ok(()));
            assert!(refused.unwrap_err().why.contains("does not match this job's key"), "{proof}");
        }
    }

    /// Fault: a recorded handshake is replayed -> it is refused
    #[test]
    fn a_recorded_handshake_cannot_be_replayed() {
        let (mut initiator, hello) = begin(key(7), "job");
        let mut first = Acceptor::new(key(7), Some("job"), [2; 32]);
        let Ok(Next::Send(challenge)) = first.received(&hello, |_| Ok(())) else { panic!("no challenge") };
        let Ok(Next::Send(proof)) = initiator.received(&challenge) else { panic!("no proof") };
        assert!(matches!(first.received(&proof, |_| Ok(())), Ok(Next::Done(_))));
        let mut second = Acceptor::new(key(7), Some("job"), [3; 32]);
        assert!(second.received(&hello, |_| Ok(())).is_ok());
        assert!(second.received(&proof, |_| Ok(())).is_err());
    }

    #[test]
    fn the_acceptors_own_proof_is_refused() {
        let (_, hello) = begin(key(7), "job");
        let mut acceptor = Acceptor::new(key(7), Some("job"), [2; 32]);
        let Ok(Next::Send(challenge)) = acceptor.received(&hello, |_| Ok(())) else { panic!("no challenge") };
        let Ok(Answer::Challenge { proof, .. }) = serde_json::from_slice(&challenge[4..]) else {
            panic!("no challenge")
        };
        assert!(acceptor.received(&encode(&Proof { proof }), |_| Ok(())).is_err());
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", key(7)), "Key(Key(..))");
    }

    /// Messages that a process without the key can send, some of them changed, all with a correct length.
    fn altered_messages() -> impl Strategy<Value = Vec<u8>> {
        let (mut stranger, hello) = begin(key(8), "job");
        let (_, open) = begin(Authentication::None, "job");
        let mut acceptor = Acceptor::new(key(8), Some("job"), [5; 32]);
        let Ok(Next::Send(challenge)) = acceptor.received(&hello, |_| Ok(())) else { panic!("no challenge") };
        let Ok(Next::Send(proof)) = stranger.received(&challenge) else { panic!("no proof") };
        let refused = encode(&Answer::Refused { why: "no".to_owned(), permanent: false });
        let all = vec![hello, open, challenge, proof, encode(&Answer::Accepted), refused];
        let change = (any::<prop::sample::Index>(), any::<u8>(), 0..5u8);
        (prop::sample::select(all), prop::collection::vec(change, 0..4)).prop_map(|(saying, changes)| {
            let mut text = saying[4..].to_vec();
            for (at, byte, how) in changes {
                let at = at.index(text.len().max(1)).min(text.len());
                match how {
                    0 if at < text.len() => text[at] = byte,
                    1 if at < text.len() => drop(text.remove(at)),
                    2 => text.insert(at, byte),
                    3 => text.truncate(at),
                    // Insert fields that the protocol knows.
                    _ => drop(text.splice(at..at, br#","is":"lane","rank":-1"#.iter().copied())),
                }
            }
            [&(text.len() as u32).to_le_bytes(), &text[..]].concat()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// Fault: messages of a handshake arrive changed and in any order -> nobody is accepted without the key, and every message is answered or ends the handshake
        #[test]
        fn changed_messages_in_any_order_are_never_accepted(
            altered_messages in prop::collection::vec(altered_messages(), 1..5), cut in 1usize..300,
        ) {
            let mut acceptor = Acceptor::new(key(7), Some("job"), [2; 32]);
            'all: for saying in &altered_messages {
                let mut next = Ok(Next::Wait);
                for part in saying.chunks(cut) {
                    prop_assert!(acceptor.wants() <= 4 + MAX_MESSAGE_BYTES);
                    next = acceptor.received(part, |_| Ok(()));
                    if next.is_err() {
                        break 'all;
                    }
                }
                // A complete message is answered, and none makes this side accept.
                prop_assert!(matches!(next, Ok(Next::Send(_))), "{next:?}");
            }
            let mut initiator = begin(key(7), "job").0;
            for saying in &altered_messages {
                let next = initiator.received(saying);
                prop_assert!(!matches!(next, Ok(Next::Done(_) | Next::Wait)), "{next:?}");
                if next.is_err() {
                    break;
                }
            }
        }

        /// Fault: garbage arrives instead of a handshake -> it is never accepted
        #[test]
        fn garbage_is_never_accepted(
            bytes in prop::collection::vec(any::<u8>(), 0..400), split in 0usize..400, framed: bool,
        ) {
            // With and without a correct length in front.
            let length = (bytes.len() as u32).to_le_bytes();
            let bytes = if framed { [&length, &bytes[..]].concat() } else { bytes };
            let mut acceptor = Acceptor::new(key(7), Some("job"), [2; 32]);
            let (a, b) = bytes.split_at(split.min(bytes.len()));
            for part in [a, b] {
                prop_assert!(!matches!(acceptor.received(part, |_| Ok(())), Ok(Next::Done(_))));
            }
            let mut initiator = begin(key(7), "job").0;
            prop_assert!(!matches!(initiator.received(&bytes), Ok(Next::Done(_))));
        }
    }
}
