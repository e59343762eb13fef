//! Certificates of a job. A process with a certificate of the job's CA belongs to the job. Both sides of every
//! connection show their certificates (mutual TLS).
//!
//! The names in a certificate (SAN, DNS) say what its holder may do: [`HUB`] may serve as a hub, [`RANK`] may be a
//! rank. `NAME.job.syncline` restricts it to that job, `rank-N.syncline` to that rank. Without such names it is valid
//! for every job, or every rank, of the CA.
//!
//! - [`Identity`]: a process's own certificate and the CA's, ready for connections; [`Names`]: the names in a
//!   certificate;
//! - [`issue`]: creates a CA for a job, and certificates of that CA.

pub mod issue;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use syncline_protocol::handshake::Role;
use time::OffsetDateTime;
use webpki::{EndEntityCert, KeyUsage};

/// The name in the certificate of a process that may serve as a hub.
pub const HUB: &str = "hub.syncline";

/// The name in the certificate of a process that may be a rank.
pub const RANK: &str = "rank.syncline";

/// The suffix after a job's name.
const JOB: &str = ".job.syncline";

/// A part of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The CA's certificate.
    Ca,
    /// The process's own certificate.
    Certificate,
    /// The key of that certificate.
    Key,
}

/// Why an identity is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The part at fault.
    pub part: Part,
    /// A clause about the part, which reveals nothing about a key.
    pub why: String,
}

impl Flaw {
    fn new(part: Part, why: impl Into<String>) -> Self {
        Self { part, why: why.into() }
    }
}

/// When the certificates of an identity expire, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The process's own certificate.
    pub own: i64,
    /// The CA's certificate.
    pub ca: i64,
}

/// A process's certificate and key, and the CA whose certificates it accepts. Clones share what [`Identity::renew`]
/// replaces.
#[derive(Clone)]
pub struct Identity {
    current: Arc<RwLock<Current>>,
}

/// What an identity consists of until it is renewed.
#[derive(Clone)]
struct Current {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    names: Names,
    expiry: Expiry,
}

impl fmt::Debug for Identity {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Current { names, expiry, .. } = self.current();
        f.debug_struct("Identity").field("names", &names).field("expiry", &expiry).finish_non_exhaustive()
    }
}

/// The three cipher suites of TLS 1.3. The first is the fastest on processors with instructions for AES.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

/// Reads the certificates in PEM text, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(PemError::NoItemsFound) => Err("contains no PEM certificate".to_owned()),
        Err(error) => Err(format!("is not valid PEM ({error})")),
    }
}

/// The time at which a certificate expires, in seconds since 1970.
fn end(certificate: &CertificateDer<'_>) -> Result<i64, String> {
    let bad = |error: webpki::Error| format!("contains a certificate that cannot be parsed ({error})");
    let parsed = EndEntityCert::try_from(certificate).map_err(bad)?;
    // The parser does not reveal the date, so verify the certificate at the last possible time: the error has the date.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let algorithms = provider().signature_verification_algorithms.all;
    let time = UnixTime::since_unix_epoch(LAST);
    match parsed.verify_for_usage(algorithms, &[], &[], time, KeyUsage::server_auth(), None, None).err() {
        Some(webpki::Error::CertExpired { not_after, .. }) => Ok(not_after.as_secs() as i64),
        _ => Ok(LAST.as_secs() as i64),
    }
}

/// Formats a time in seconds since 1970 as a date and time for people.
pub fn date(seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(seconds).map_or("a date out of range".to_owned(), |time| {
        let (month, day) = (u8::from(time.month()), time.day());
        format!("{}-{month:02}-{day:02} {:02}:{:02} UTC", time.year(), time.hour(), time.minute())
    })
}

impl Identity {
    /// Creates an identity from PEM text: the CA's certificate, the process's own, and its key. Checks that this CA
    /// issued the certificate, that the key belongs to it, and that it is valid now.
    ///
    /// # Errors
    /// The part that is wrong, and why.
    pub fn new(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, Flaw> {
        let at = |part| move |why: String| Flaw { part, why };
        let anchors = certificates(ca).map_err(at(Part::Ca))?;
        let chain = certificates(certificate).map_err(at(Part::Certificate))?;
        // The parser's error could reveal parts of the key, so it is discarded.
        let read = || PrivateKeyDer::from_pem_slice(key);
        let key = read().map_err(|_| Flaw::new(Part::Key, "contains no PEM private key"))?;
        let now = UnixTime::now();
        let mut roots = RootCertStore::empty();
        let mut ca_ends = i64::MAX;
        for anchor in anchors {
            let ends = end(&anchor).map_err(at(Part::Ca))?;
            ca_ends = ca_ends.min(ends);
            roots.add(anchor).map_err(|error| {
                Flaw::new(Part::Ca, format!("contains a certificate that cannot be a CA's ({error})"))
            })?;
        }
        let over = |ends: i64| (ends < now.as_secs() as i64).then(|| format!("expired on {}", date(ends)));
        if let Some(why) = over(ca_ends) {
            return Err(Flaw::new(Part::Ca, why));
        }
        let ends = end(&chain[0]).map_err(at(Part::Certificate))?;
        let own = EndEntityCert::try_from(&chain[0])
            .map_err(|error| Flaw::new(Part::Certificate, error.to_string()))?;
        let provider = provider();
        let verified = [KeyUsage::client_auth(), KeyUsage::server_auth()].into_iter().try_for_each(|usage| {
            let algorithms = provider.signature_verification_algorithms.all;
            own.verify_for_usage(algorithms, &roots.roots, &chain[1..], now, usage, None, None).map(drop)
        });
        verified.map_err(|error| {
            let why = match error {
                webpki::Error::CertExpired { not_after, .. } => {
                    format!("expired on {}", date(not_after.as_secs() as i64))
                }
                webpki::Error::CertNotValidYet { not_before, .. } => {
                    format!("is not valid before {}", date(not_before.as_secs() as i64))
                }
                webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                    "was issued by another CA".to_owned()
                }
                error => format!("cannot be used for both sides of a connection ({error})"),
            };
            Flaw::new(Part::Certificate, why)
        })?;
        let names = Names::of(&chain[0]);
        if !names.hub && !names.rank {
            return Err(Flaw::new(
                Part::Certificate,
                format!("is neither for `{HUB}` nor for `{RANK}`: make one with `syncline hub certs`"),
            ));
        }
        let roots = Arc::new(roots);
        let mismatch = |error: rustls::Error| match error {
            rustls::Error::InconsistentKeys(_) => Flaw::new(Part::Key, "is not the key of the certificate"),
            error => Flaw::new(Part::Key, format!("cannot be used ({error})")),
        };
        const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
        let unusable = |what: String| Flaw::new(Part::Ca, format!("cannot be used ({what})"));
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(VERSIONS)
            .map_err(|error| unusable(error.to_string()))?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(mismatch)?;
        // Every connection shows the certificates again.
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(VERSIONS)
            .map_err(|error| unusable(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(mismatch)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let current = Current {
            client: Arc::new(client),
            server: Arc::new(server),
            names,
            expiry: Expiry { own: ends, ca: ca_ends },
        };
        Ok(Self { current: Arc::new(RwLock::new(current)) })
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over the certificates of another identity. Connections that begin from now on use them, also those of
    /// clones; connections that exist go on.
    ///
    /// # Errors
    /// The new certificate has other names, so the process could not do what it does. Nothing changes then.
    pub fn renew(&self, new: &Self) -> Result<(), Flaw> {
        let new = new.current();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if new.names != current.names {
            let why = "is not for the same hub or rank, and job, as the certificate that it replaces";
            return Err(Flaw::new(Part::Certificate, why));
        }
        *current = new;
        Ok(())
    }

    /// The names in the process's own certificate.
    pub fn names(&self) -> Names {
        self.current().names
    }

    /// When the certificates expire.
    pub fn expiry(&self) -> Expiry {
        self.current().expiry
    }

    /// The configuration of a connecting side whose peer's certificate must have `name`, which is [`HUB`] or [`RANK`].
    pub(crate) fn client(&self, name: &'static str) -> (Arc<ClientConfig>, ServerName<'static>) {
        (self.current().client, ServerName::try_from(name).expect("HUB and RANK are valid DNS names"))
    }

    /// The configuration of an accepting side.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.current().server
    }
}

/// What the names in a certificate allow its holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether the holder may serve as a hub.
    pub hub: bool,
    /// Whether the holder may be a rank.
    pub rank: bool,
    /// The jobs for which the certificate is valid; if empty, all jobs.
    pub jobs: Vec<String>,
    /// The ranks for which the certificate is valid; if empty, all ranks.
    pub ranks: Vec<u32>,
}

/// The name that the accepting side's certificate must have, for a process that connects as `role`.
pub(crate) const fn counterpart(role: &Role) -> &'static str {
    match role {
        Role::Member { .. } | Role::Survivor { .. } | Role::Successor { .. } | Role::Lane { .. } => RANK,
        Role::Worker { .. }
        | Role::Core { .. }
        | Role::Rack { .. }
        | Role::StatusClient
        | Role::SaveClient => HUB,
    }
}

impl Names {
    /// Reads the names in a certificate. Ignores names that are not syncline's.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut names = Self::default();
        let Ok(parsed) = EndEntityCert::try_from(certificate) else { return names };
        for name in parsed.valid_dns_names() {
            match name {
                HUB => names.hub = true,
                RANK => names.rank = true,
                _ => {
                    let rank = name.strip_prefix("rank-").and_then(|rest| rest.strip_suffix(".syncline"));
                    names.ranks.extend(rank.and_then(|rank| rank.parse::<u32>().ok()));
                    names.jobs.extend(name.strip_suffix(JOB).map(str::to_owned));
                }
            }
        }
        names
    }

    /// Checks whether the holder of this certificate may connect as `role` for a job.
    ///
    /// # Errors
    /// A sentence: what the certificate is for, and what it should be for.
    pub(crate) fn connects(&self, role: &Role, job: &str) -> Result<(), String> {
        let (able, rank) = match *role {
            Role::StatusClient | Role::SaveClient => return Ok(()),
            Role::Rack { .. } => (self.hub, None),
            Role::Member { rank, .. }
            | Role::Survivor { rank, .. }
            | Role::Successor { rank, .. }
            | Role::Worker { rank }
            | Role::Core { rank, .. } => (self.rank, Some(rank)),
            Role::Lane { from, .. } => (self.rank, Some(from)),
        };
        if !able {
            let (is, wanted) = if self.hub { (HUB, RANK) } else { (RANK, HUB) };
            return Err(format!(
                "the certificate is for `{is}`, and this connection needs one for `{wanted}`"
            ));
        }
        self.is_valid_for(rank, job)
    }

    /// Checks whether the holder of this certificate may accept a connection that another process makes as `role`,
    /// for a job. TLS has already checked its name ([`counterpart`]).
    ///
    /// # Errors
    /// As [`Names::connects`].
    pub(crate) fn serves(&self, role: &Role, job: &str) -> Result<(), String> {
        match *role {
            Role::StatusClient | Role::SaveClient => Ok(()),
            Role::Member { coordinator, .. } | Role::Survivor { coordinator, .. } => {
                self.is_valid_for(Some(coordinator), job)
            }
            Role::Successor { first, .. } => self.is_valid_for(Some(first), job),
            Role::Lane { to, .. } => self.is_valid_for(Some(to), job),
            Role::Worker { .. } | Role::Core { .. } | Role::Rack { .. } => self.is_valid_for(None, job),
        }
    }

    fn is_valid_for(&self, rank: Option<u32>, job: &str) -> Result<(), String> {
        if !self.jobs.is_empty() && !self.jobs.iter().any(|each| each == job) {
            return Err(format!(
                "the certificate is for job `{}`, and this is job `{job}`",
                self.jobs.join("`, `")
            ));
        }
        match rank {
            Some(rank) if !self.ranks.is_empty() && !self.ranks.contains(&rank) => {
                let ranks = self.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                Err(format!("the certificate is for rank {ranks}, and this is rank {rank}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::issue::{Issued, issue, issue_between};
    use super::*;
    use std::time::SystemTime;

    fn hub(issued: &Issued) -> Result<Identity, Flaw> {
        Identity::new(issued.ca.as_bytes(), issued.hub.certificate.as_bytes(), issued.hub.key.as_bytes())
    }

    #[test]
    fn issued_certificates_are_usable_and_name_their_job_and_rank() {
        let issued = issue(Some("train-1"), 2, 30).unwrap();
        let identity = hub(&issued).unwrap();
        assert_eq!(
            identity.names(),
            Names { hub: true, jobs: vec!["train-1".to_owned()], ..Names::default() }
        );
        let now = OffsetDateTime::now_utc().unix_timestamp();
        for end in [identity.expiry().own, identity.expiry().ca] {
            assert!((30 * 86_400 - 60..=30 * 86_400).contains(&(end - now)), "{end}");
        }
        assert!(issued.rank.is_none());
        let one = &issued.ranks[1];
        let one =
            Identity::new(issued.ca.as_bytes(), one.certificate.as_bytes(), one.key.as_bytes()).unwrap();
        let names =
            Names { rank: true, jobs: vec!["train-1".to_owned()], ranks: vec![1], ..Names::default() };
        assert_eq!(one.names(), names);
        let lane = |from| Role::Lane { from, to: 0, lane: 0, epoch: 0 };
        assert_eq!(one.names().connects(&lane(1), "train-1"), Ok(()));
        assert!(
            one.names().connects(&lane(0), "train-1").unwrap_err().contains("for rank 1, and this is rank 0")
        );
        assert!(one.names().connects(&lane(1), "train-2").unwrap_err().contains("for job `train-1`"));
        let rack = Role::Rack { rack: 0, core: 0 };
        assert!(one.names().connects(&rack, "train-1").unwrap_err().contains("needs one for `hub.syncline`"));
        assert_eq!(identity.names().connects(&rack, "train-1"), Ok(()));
        assert!(identity.names().connects(&lane(1), "train-1").is_err());
        assert!(!format!("{identity:?}{issued:?}").contains("PRIVATE"));
    }

    #[test]
    fn an_invalid_identity_is_refused_with_the_part_at_fault() {
        let (ours, theirs) = (issue(None, 0, 1).unwrap(), issue(None, 0, 1).unwrap());
        let flaw = |ca: &str, certificate: &str, key: &str| {
            Identity::new(ca.as_bytes(), certificate.as_bytes(), key.as_bytes()).unwrap_err()
        };
        let (certificate, key) = (&ours.hub.certificate, &ours.hub.key);
        assert_eq!(
            flaw(&theirs.ca, certificate, key),
            Flaw::new(Part::Certificate, "was issued by another CA")
        );
        let other = flaw(&ours.ca, certificate, &theirs.hub.key);
        assert_eq!(other, Flaw::new(Part::Key, "is not the key of the certificate"));
        assert_eq!(flaw("", certificate, key).part, Part::Ca);
        assert_eq!(
            flaw(&ours.ca, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key).part,
            Part::Certificate
        );
        assert_eq!(
            flaw(&ours.ca, certificate, certificate),
            Flaw::new(Part::Key, "contains no PEM private key")
        );
        assert_eq!(flaw(&ours.ca, &ours.ca, key).part, Part::Certificate);
        let broken = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let Flaw { part, why } = flaw(&ours.ca, certificate, broken);
        assert!(part == Part::Key && !why.contains("c2VjcmV0") && !why.contains("secret"), "{why}");
    }

    #[test]
    fn expired_and_future_certificates_are_refused_with_their_date() {
        let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400);
        let flaw = hub(&issue_between(None, 0, day(20_000), day(20_001)).unwrap()).unwrap_err();
        assert_eq!(flaw, Flaw::new(Part::Ca, "expired on 2024-10-05 00:00 UTC"));
        let flaw = hub(&issue_between(None, 0, day(40_000), day(40_001)).unwrap()).unwrap_err();
        assert_eq!(flaw, Flaw::new(Part::Certificate, "is not valid before 2079-07-08 00:00 UTC"));
    }

    #[test]
    fn an_identity_takes_over_new_certificates_only_for_the_same_names() {
        let (old, new) = (issue(None, 0, 1).unwrap(), issue(None, 0, 20).unwrap());
        let identity = hub(&old).unwrap();
        let (clone, before) = (identity.clone(), identity.expiry());
        identity.renew(&hub(&new).unwrap()).unwrap();
        assert!(clone.expiry().own > before.own && clone.expiry().ca > before.ca);
        let rank = new.rank.unwrap();
        let rank =
            Identity::new(new.ca.as_bytes(), rank.certificate.as_bytes(), rank.key.as_bytes()).unwrap();
        let flaw = identity.renew(&rank).unwrap_err();
        assert_eq!(flaw.part, Part::Certificate);
        assert!(identity.names().hub && flaw.why.contains("not for the same hub or rank"), "{flaw:?}");
    }

    #[test]
    fn invalid_job_names_and_numbers_of_days_or_ranks_are_refused() {
        for job in ["", "A", "a.b", "-a", "a b", &"a".repeat(64)] {
            assert!(issue(Some(job), 0, 1).unwrap_err().contains("cannot be in a certificate"), "{job}");
        }
        assert!(issue(Some("a-1_b"), 0, 1).is_ok());
        assert!(issue(None, 0, 0).unwrap_err().contains("1 to 825"));
        assert!(issue(None, 5000, 1).unwrap_err().contains("up to 4096"));
    }
}
