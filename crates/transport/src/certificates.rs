//! Certificates of a job: whoever has one of the job's CA belongs to it. Both sides of every connection show one (mutual TLS).
//!
//! A certificate says what its holder may be by its names (SAN, DNS): [`HUB`] serves, [`RANK`] computes. `NAME.job.syncline`
//! holds it to that job, `rank-N.syncline` to that rank; without such names it is good for every job, or every rank, of the CA.
//!
//! - [`Identity`]: a certificate of one's own and the CA's, ready for connections; [`Names`]: what a certificate says;
//! - [`issue`]: a CA for a job, and certificates of it.

pub mod issue;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use syncline_protocol::handshake::Role;
use time::OffsetDateTime;
use webpki::{EndEntityCert, KeyUsage};

/// The name of whoever may serve as a hub.
pub const HUB: &str = "hub.syncline";

/// The name of whoever may be a rank.
pub const RANK: &str = "rank.syncline";

/// Behind a job's name.
const JOB: &str = ".job.syncline";

/// A part of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The CA's certificate.
    Ca,
    /// The certificate of one's own.
    Certificate,
    /// The key of that certificate.
    Key,
}

/// Why there is no identity: which part is wrong, and a clause that says how. Nothing of a key is in it.
pub type Flaw = (Part, String);

/// A process's certificate and key, and the CA whose certificates it believes.
#[derive(Clone)]
pub struct Identity {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    names: Names,
    ends: (i64, i64),
}

impl fmt::Debug for Identity {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("names", &self.names)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

/// TLS 1.3 has three suites; the fastest of them first, where processors encrypt.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

/// The certificates in PEM text, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(PemError::NoItemsFound) => Err("has no certificate in PEM".to_owned()),
        Err(error) => Err(format!("is no PEM ({error})")),
    }
}

/// Seconds since 1970 until which a certificate is good.
fn end(certificate: &CertificateDer<'_>) -> Result<i64, String> {
    let bad = |error: webpki::Error| format!("has a certificate that cannot be read ({error})");
    let parsed = EndEntityCert::try_from(certificate).map_err(bad)?;
    // The date is what a verification at the end of time complains of.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let algorithms = provider().signature_verification_algorithms.all;
    let time = UnixTime::since_unix_epoch(LAST);
    match parsed.verify_for_usage(algorithms, &[], &[], time, KeyUsage::server_auth(), None, None).err() {
        Some(webpki::Error::CertExpired { not_after, .. }) => Ok(not_after.as_secs() as i64),
        _ => Ok(LAST.as_secs() as i64),
    }
}

/// A date for people, of seconds since 1970.
pub fn date(seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(seconds).map_or("a day beyond all calendars".to_owned(), |time| {
        let (month, day) = (u8::from(time.month()), time.day());
        format!("{}-{month:02}-{day:02} {:02}:{:02} UTC", time.year(), time.hour(), time.minute())
    })
}

impl Identity {
    /// The identity of PEM text: the CA's certificate, one's own, and its key. It is held against itself: the certificate is
    /// of this CA and of this key, and has not ended.
    ///
    /// # Errors
    /// Which part is wrong, and how.
    pub fn new(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, Flaw> {
        let at = |part| move |why: String| (part, why);
        let anchors = certificates(ca).map_err(at(Part::Ca))?;
        let chain = certificates(certificate).map_err(at(Part::Certificate))?;
        // What is wrong with a key is not said in the words of whoever read it.
        let read = || PrivateKeyDer::from_pem_slice(key);
        let key = read().map_err(|_| (Part::Key, "has no private key in PEM".to_owned()))?;
        let now = UnixTime::now();
        let mut roots = RootCertStore::empty();
        let mut ca_ends = i64::MAX;
        for anchor in anchors {
            let ends = end(&anchor).map_err(at(Part::Ca))?;
            ca_ends = ca_ends.min(ends);
            roots.add(anchor).map_err(|error| (Part::Ca, format!("has no CA's certificate ({error})")))?;
        }
        let over = |ends: i64| (ends < now.as_secs() as i64).then(|| format!("ended on {}", date(ends)));
        if let Some(why) = over(ca_ends) {
            return Err((Part::Ca, why));
        }
        let ends = end(&chain[0]).map_err(at(Part::Certificate))?;
        let own =
            EndEntityCert::try_from(&chain[0]).map_err(|error| (Part::Certificate, error.to_string()))?;
        let provider = provider();
        let verified = [KeyUsage::client_auth(), KeyUsage::server_auth()].into_iter().try_for_each(|usage| {
            let algorithms = provider.signature_verification_algorithms.all;
            own.verify_for_usage(algorithms, &roots.roots, &chain[1..], now, usage, None, None).map(drop)
        });
        verified.map_err(|error| {
            let why = match error {
                webpki::Error::CertExpired { not_after, .. } => {
                    format!("ended on {}", date(not_after.as_secs() as i64))
                }
                webpki::Error::CertNotValidYet { not_before, .. } => {
                    format!("begins on {}", date(not_before.as_secs() as i64))
                }
                webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                    "is of another CA".to_owned()
                }
                error => format!("is not good for both sides of a connection ({error})"),
            };
            (Part::Certificate, why)
        })?;
        let names = Names::of(&chain[0]);
        if !names.hub && !names.rank {
            return Err((Part::Certificate, format!("is neither for `{HUB}` nor for `{RANK}`")));
        }
        let roots = Arc::new(roots);
        let mismatch = |error: rustls::Error| match error {
            rustls::Error::InconsistentKeys(_) => (Part::Key, "is not the key of the certificate".to_owned()),
            error => (Part::Key, format!("cannot be used ({error})")),
        };
        const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
        let unusable = |what: String| (Part::Ca, format!("cannot be used ({what})"));
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(VERSIONS)
            .map_err(|error| unusable(error.to_string()))?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(mismatch)?;
        // Certificates are shown anew on every connection.
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
        Ok(Self { client: Arc::new(client), server: Arc::new(server), names, ends: (ends, ca_ends) })
    }

    /// What the certificate says.
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// Until when the certificate and the CA's are good, in seconds since 1970.
    pub const fn ends(&self) -> (i64, i64) {
        self.ends
    }

    /// What a connection to somebody needs, who is to be called by one of our names.
    pub(crate) fn client(&self, name: &'static str) -> (Arc<ClientConfig>, ServerName<'static>) {
        (Arc::clone(&self.client), ServerName::try_from(name).expect("our names are names"))
    }

    /// What a connection of somebody needs.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }
}

/// What a certificate says of whoever has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// It may serve as a hub.
    pub hub: bool,
    /// It may be a rank.
    pub rank: bool,
    /// The only jobs that it is for; all, where there are none.
    pub jobs: Vec<String>,
    /// The only ranks that it is for; all, where there are none.
    pub ranks: Vec<u32>,
}

/// Who is at the other end of a connection, to whoever plays a role.
pub(crate) const fn counterpart(role: &Role) -> &'static str {
    match role {
        Role::Member { .. } | Role::Lane { .. } => RANK,
        Role::Worker { .. } | Role::Core { .. } | Role::Rack { .. } | Role::Visitor => HUB,
    }
}

impl Names {
    /// The names of a certificate; names of others are passed over.
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

    /// Whether whoever has this certificate may connect in a role, for a job.
    ///
    /// # Errors
    /// A clause that says what the certificate is for.
    pub(crate) fn connects(&self, role: &Role, job: &str) -> Result<(), String> {
        let (able, rank) = match *role {
            Role::Visitor => return Ok(()),
            Role::Rack { .. } => (self.hub, None),
            Role::Member { rank, .. } | Role::Worker { rank } | Role::Core { rank, .. } => {
                (self.rank, Some(rank))
            }
            Role::Lane { from, .. } => (self.rank, Some(from)),
        };
        if !able {
            let (is, wanted) = if self.hub { (HUB, RANK) } else { (RANK, HUB) };
            return Err(format!("the certificate is for `{is}`, and this takes one for `{wanted}`"));
        }
        self.stands_for(rank, job)
    }

    /// Whether whoever has this certificate may be connected to in a role, for a job. That its name is the counterpart's is
    /// known.
    ///
    /// # Errors
    /// As [`Names::connects`].
    pub(crate) fn serves(&self, role: &Role, job: &str) -> Result<(), String> {
        match *role {
            Role::Visitor => Ok(()),
            // Rank 0 coordinates.
            Role::Member { .. } => self.stands_for(Some(0), job),
            Role::Lane { to, .. } => self.stands_for(Some(to), job),
            Role::Worker { .. } | Role::Core { .. } | Role::Rack { .. } => self.stands_for(None, job),
        }
    }

    fn stands_for(&self, rank: Option<u32>, job: &str) -> Result<(), String> {
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
    fn what_is_issued_can_be_used_and_says_for_what() {
        let issued = issue(Some("train-1"), 2, 30).unwrap();
        let identity = hub(&issued).unwrap();
        assert_eq!(
            identity.names(),
            &Names { hub: true, jobs: vec!["train-1".to_owned()], ..Names::default() }
        );
        let now = OffsetDateTime::now_utc().unix_timestamp();
        for end in [identity.ends().0, identity.ends().1] {
            assert!((30 * 86_400 - 60..=30 * 86_400).contains(&(end - now)), "{end}");
        }
        assert!(issued.rank.is_none());
        let one = &issued.ranks[1];
        let one =
            Identity::new(issued.ca.as_bytes(), one.certificate.as_bytes(), one.key.as_bytes()).unwrap();
        let names =
            Names { rank: true, jobs: vec!["train-1".to_owned()], ranks: vec![1], ..Names::default() };
        assert_eq!(one.names(), &names);
        let lane = |from| Role::Lane { from, to: 0, lane: 0, epoch: 0 };
        assert_eq!(one.names().connects(&lane(1), "train-1"), Ok(()));
        assert!(
            one.names().connects(&lane(0), "train-1").unwrap_err().contains("for rank 1, and this is rank 0")
        );
        assert!(one.names().connects(&lane(1), "train-2").unwrap_err().contains("for job `train-1`"));
        let rack = Role::Rack { rack: 0, core: 0 };
        assert!(one.names().connects(&rack, "train-1").unwrap_err().contains("takes one for `hub.syncline`"));
        assert_eq!(identity.names().connects(&rack, "train-1"), Ok(()));
        assert!(identity.names().connects(&lane(1), "train-1").is_err());
        assert!(!format!("{identity:?}{issued:?}").contains("PRIVATE"));
    }

    #[test]
    fn identities_that_do_not_fit_are_refused_with_the_part_at_fault() {
        let (ours, theirs) = (issue(None, 0, 1).unwrap(), issue(None, 0, 1).unwrap());
        let flaw = |ca: &str, certificate: &str, key: &str| {
            Identity::new(ca.as_bytes(), certificate.as_bytes(), key.as_bytes()).unwrap_err()
        };
        let (certificate, key) = (&ours.hub.certificate, &ours.hub.key);
        assert_eq!(flaw(&theirs.ca, certificate, key), (Part::Certificate, "is of another CA".to_owned()));
        let other = flaw(&ours.ca, certificate, &theirs.hub.key);
        assert_eq!(other, (Part::Key, "is not the key of the certificate".to_owned()));
        assert_eq!(flaw("", certificate, key).0, Part::Ca);
        assert_eq!(
            flaw(&ours.ca, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key).0,
            Part::Certificate
        );
        assert_eq!(
            flaw(&ours.ca, certificate, certificate),
            (Part::Key, "has no private key in PEM".to_owned())
        );
        assert_eq!(flaw(&ours.ca, &ours.ca, key).0, Part::Certificate);
        let broken = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let (part, why) = flaw(&ours.ca, certificate, broken);
        assert!(part == Part::Key && !why.contains("c2VjcmV0") && !why.contains("secret"), "{why}");
    }

    #[test]
    fn certificates_that_have_ended_are_refused_with_their_date() {
        let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400);
        let flaw = hub(&issue_between(None, 0, day(20_000), day(20_001)).unwrap()).unwrap_err();
        assert_eq!(flaw, (Part::Ca, "ended on 2024-10-05 00:00 UTC".to_owned()));
        let flaw = hub(&issue_between(None, 0, day(40_000), day(40_001)).unwrap()).unwrap_err();
        assert_eq!(flaw, (Part::Certificate, "begins on 2079-07-08 00:00 UTC".to_owned()));
    }

    #[test]
    fn names_and_numbers_that_certificates_cannot_have_are_refused() {
        for job in ["", "A", "a.b", "-a", "a b", &"a".repeat(64)] {
            assert!(issue(Some(job), 0, 1).unwrap_err().contains("cannot be in a certificate"), "{job}");
        }
        assert!(issue(Some("a-1_b"), 0, 1).is_ok());
        assert!(issue(None, 0, 0).unwrap_err().contains("1 to 825"));
        assert!(issue(None, 5000, 1).unwrap_err().contains("up to 4096"));
    }
}
