//! Creates a CA for a job, and certificates of that CA.

use super::{HUB, JOB, RANK};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

/// By how much the clocks of hosts may differ.
const SKEW: Duration = Duration::from_secs(3600);

/// The most days for which certificates may be valid. Single certificates cannot be revoked: after a loss, all have
/// to be made again.
pub const MAX_DAYS: u32 = 825;

/// The most ranks that can have certificates of their own.
pub const MAX_RANKS: u32 = 4096;

/// The most characters of a job's name in a certificate.
const LONGEST_NAME: usize = 63;

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key of the certificate, which only its owner may read.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair(..)")
    }
}

/// The certificates of a job. The CA's own key is not kept, so nobody can make another certificate later.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The CA's certificate, as PEM.
    pub ca: String,
    /// The certificate for hubs.
    pub hub: Pair,
    /// The certificate for all ranks; `None` if each rank has its own.
    pub rank: Option<Pair>,
    /// The certificate of each rank; empty if all ranks share one.
    pub ranks: Vec<Pair>,
}

/// Makes a CA and certificates of that CA. They are valid from an hour ago, because clocks differ, until `days` days
/// from now. With a `job`, they are valid only for that job. With `ranks` above 0, each rank gets a certificate of
/// its own, which is valid for no other rank.
///
/// # Errors
/// A sentence that says which argument is invalid.
pub fn issue(job: Option<&str>, ranks: u32, days: u32) -> Result<Issued, String> {
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(format!("certificates cannot be valid for {days} days: give 1 to {MAX_DAYS}"));
    }
    let now = SystemTime::now();
    issue_between(job, ranks, now - SKEW, now + Duration::from_secs(u64::from(days) * 86_400))
}

/// As [`issue`], with certificates that are valid from `begins` to `ends`.
///
/// # Errors
/// As [`issue`].
pub fn issue_between(
    job: Option<&str>,
    ranks: u32,
    begins: SystemTime,
    ends: SystemTime,
) -> Result<Issued, String> {
    let (begins, ends) = (OffsetDateTime::from(begins), OffsetDateTime::from(ends));
    if ranks > MAX_RANKS {
        return Err(format!("cannot make a certificate for each of {ranks} ranks: give up to {MAX_RANKS}"));
    }
    let job = job.map(label).transpose()?;
    let failed = |error: rcgen::Error| format!("cannot make a certificate: {error}");
    let dated = |names: Vec<String>, common: &str| -> Result<CertificateParams, String> {
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        (params.not_before, params.not_after) = (begins, ends);
        Ok(params)
    };
    let ca_key = KeyPair::generate().map_err(failed)?;
    // A random number gives each CA a different name.
    let serial = crate::random::random()?;
    let mut params = dated(Vec::new(), &format!("syncline job CA {serial:016x}"))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = params.self_signed(&ca_key).map_err(failed)?;
    let issuer = Issuer::new(params, ca_key);
    let pair = |name: &str, only: Option<u32>| -> Result<Pair, String> {
        let names = [name.to_owned()].into_iter();
        let names = names.chain(job.clone()).chain(only.map(|rank| format!("rank-{rank}.syncline")));
        let mut params = dated(names.collect(), name)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    };
    Ok(Issued {
        ca: ca.pem(),
        hub: pair(HUB, None)?,
        rank: (ranks == 0).then(|| pair(RANK, None)).transpose()?,
        ranks: (0..ranks).map(|rank| pair(RANK, Some(rank))).collect::<Result<_, _>>()?,
    })
}

/// The name that restricts a certificate to a job.
fn label(job: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = job.as_bytes();
    if bytes.len() > LONGEST_NAME
        || !bytes.iter().all(|&byte| plain(byte))
        || !ends(bytes.first())
        || !ends(bytes.last())
    {
        return Err(format!(
            "job `{job}` cannot be in a certificate: its name must have 1 to {LONGEST_NAME} characters, \
             of a-z, 0-9, `-` and `_`, and must begin and end with a letter or digit"
        ));
    }
    Ok(format!("{job}{JOB}"))
}
