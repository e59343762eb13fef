//! Distances between hosts: how long a message takes from one to another.

use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{Bytes, Rate, Time};

/// What was measured between any two hosts. Symmetric: the larger one of both directions counts (luo2020 5.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    hosts: u32,
    latency: Matrix,
    rate: Option<Vec<Rate>>,
}

/// Times between any two hosts. Symmetric, with zeros between a host and itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    hosts: u32,
    times: Vec<Time>,
}

impl Matrix {
    /// The matrix whose entry for two hosts is the larger one of both directions.
    ///
    /// `times` holds the times from the first host to all, then those from the second host, and so on.
    ///
    /// # Panics
    /// If `times` is not the square of `hosts` long.
    pub fn new(hosts: u32, times: &[Time]) -> Self {
        let size = hosts as usize;
        assert_eq!(times.len(), size * size, "one time from each host to each");
        let both = |a: usize, b: usize| times[a * size + b].max(times[b * size + a]);
        let times = (0..size * size).map(|at| (at / size, at % size));
        let times = times.map(|(a, b)| if a == b { Time(0) } else { both(a, b) }).collect();
        Self { hosts, times }
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The time between two hosts.
    #[inline]
    pub fn between(&self, a: u32, b: u32) -> Time {
        self.times[a as usize * self.hosts as usize + b as usize]
    }

    /// The times from a host to all.
    pub(crate) fn row(&self, host: u32) -> &[Time] {
        let size = self.hosts as usize;
        &self.times[host as usize * size..][..size]
    }
}

impl Distances {
    /// Distances by latency, and by rate if rates are given: from the first host to all, then from the second, and so on.
    /// Of two directions the larger latency and the lower rate count. Entries of a host with itself are ignored.
    ///
    /// # Errors
    /// `BadValue`: there are no hosts, or a number of entries is not the square of the number of hosts, or a rate is 0.
    pub fn new(hosts: u32, latency: &[Time], rate: Option<&[Rate]>) -> Result<Self> {
        let size = hosts as usize;
        let refuse = |message: &str, found: String| {
            Err(Diagnostic::error(Code::BadValue, message).found(found).into())
        };
        if hosts == 0 {
            return refuse("an order needs hosts", "0 hosts".to_owned());
        }
        let entries = [Some(latency.len()), rate.map(<[Rate]>::len)];
        if let Some(found) = entries.into_iter().flatten().find(|&found| found != size * size) {
            return refuse("distances are not between all hosts", format!("{found} for {hosts} hosts"));
        }
        let of = |rates: &[Rate]| -> Vec<Rate> {
            let both = |a: usize, b: usize| rates[a * size + b].min(rates[b * size + a]);
            (0..size * size).map(|at| both(at / size, at % size)).collect()
        };
        let rate = rate.map(of);
        if let Some(at) =
            rate.iter().flatten().enumerate().position(|(at, r)| at / size != at % size && r.0 == 0)
        {
            return refuse(
                "hosts without any rate between them",
                format!("hosts {} and {}", at / size, at % size),
            );
        }
        Ok(Self { hosts, latency: Matrix::new(hosts, latency), rate })
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// How long a message of `bytes` takes: latency, plus bytes over the rate if rates are known (luo2020 5.2.2).
    pub fn of(&self, bytes: Bytes) -> Matrix {
        let Some(rate) = &self.rate else { return self.latency.clone() };
        let size = self.hosts as usize;
        let send = |at: usize| rate[at].transfer_time(bytes).unwrap_or(Time(u64::MAX >> 16));
        let time = |at: usize| {
            if at / size == at % size { Time(0) } else { self.latency.times[at] + send(at) }
        };
        Matrix { hosts: self.hosts, times: (0..size * size).map(time).collect() }
    }
}
