//! Certificates, for Python, by which ranks and hubs authenticate each other.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use syncline_protocol::handshake::Key;
use syncline_transport::certificates::issue::issue;
use syncline_transport::certificates::{Expiry, Flaw, Identity, Part, date};
use syncline_transport::trust::Trust;

/// A job's CA, and a certificate of it with its key. `syncline.runtime.trust` reads them from files.
#[pyclass(frozen, module = "syncline._core", from_py_object)]
#[derive(Clone)]
pub(crate) struct Certificates {
    identity: Identity,
}

#[pymethods]
impl Certificates {
    /// Reads PEM texts. Raises `ValueError` with the invalid part (`ca`, `certificate`, `key`) and the
    /// reason.
    #[staticmethod]
    fn read(ca: &[u8], certificate: &[u8], key: &[u8]) -> PyResult<Self> {
        Ok(Self { identity: Identity::new(ca, certificate, key).map_err(flawed)? })
    }

    /// Takes over other certificates. Connections that begin from now on use them. Raises `ValueError`, as
    /// `read`, if they have other names.
    fn renew(&self, new: &Self) -> PyResult<()> {
        self.identity.renew(&new.identity).map_err(flawed)
    }

    /// When the certificate and the CA's certificate expire, in seconds since 1970.
    #[getter]
    fn ends(&self) -> (i64, i64) {
        let Expiry { own, ca } = self.identity.expiry();
        (own, ca)
    }

    /// What the certificate is valid for: `hub`, `rank`, `job NAME`, `rank NUMBER`.
    #[getter]
    fn names(&self) -> Vec<String> {
        let names = self.identity.names();
        let roles = [(names.hub, "hub"), (names.rank, "rank")].into_iter().filter(|(is, _)| *is);
        let jobs = names.jobs.iter().map(|job| format!("job {job}"));
        let ranks = names.ranks.iter().map(|rank| format!("rank {rank}"));
        roles.map(|(_, name)| name.to_owned()).chain(jobs).chain(ranks).collect()
    }
}

/// The invalid part, and the reason.
fn flawed(Flaw { part, why }: Flaw) -> PyErr {
    let part = match part {
        Part::Ca => "ca",
        Part::Certificate => "certificate",
        Part::Key => "key",
    };
    PyValueError::new_err((part, why))
}

/// What members of a job share: a key, or certificates of one CA.
#[derive(FromPyObject)]
pub(crate) enum Secret {
    /// A key of 32 bytes.
    Key([u8; 32]),
    /// Certificates of one CA.
    Certificates(Certificates),
}

/// How connections check the other side.
pub(super) fn trust(secret: Option<Secret>) -> Trust {
    match secret {
        None => Trust::Everybody,
        Some(Secret::Key(key)) => Trust::Key(Key::new(key)),
        Some(Secret::Certificates(certificates)) => Trust::Tls(certificates.identity),
    }
}

/// Formats a date, given in seconds since 1970, for people.
#[pyfunction]
pub(crate) fn certificate_date(seconds: i64) -> String {
    date(seconds)
}

/// Makes a CA, and certificates of it that are valid for this number of `days`. Returns the texts of files,
/// by name.
#[pyfunction]
pub(crate) fn make_certificates(
    py: Python<'_>,
    job: Option<&str>,
    ranks: u32,
    days: u32,
) -> PyResult<BTreeMap<String, String>> {
    let issued = py.detach(|| issue(job, ranks, days)).map_err(PyValueError::new_err)?;
    let mut files = BTreeMap::from([("ca.pem".to_owned(), issued.ca)]);
    let numbered = issued.ranks.into_iter().enumerate().map(|(rank, pair)| (format!("rank-{rank}"), pair));
    let all = issued.rank.into_iter().map(|pair| ("rank".to_owned(), pair)).chain(numbered);
    for (name, pair) in all.chain([("hub".to_owned(), issued.hub)]) {
        files.insert(format!("{name}.pem"), pair.certificate);
        files.insert(format!("{name}.key"), pair.key);
    }
    Ok(files)
}
