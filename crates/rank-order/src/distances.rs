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

    /// Distances of which only some pairs were measured. Of pairs that are given twice, the larger latency and the lower
    /// rate count. Returns the distances, and how many latencies were filled in, or rates if those are more.
    ///
    /// Two hosts whose latency was not measured get the least that some path between them has as its longest hop. In a
    /// network of racks, pods and so on, where two paths of a triangle are equally long, that is never too short, and it is
    /// right as soon as some path stays within the smallest part that holds both hosts. Rates are filled in likewise: the
    /// lowest rate on the path whose lowest rate is highest.
    ///
    /// # Errors
    /// `BadDistances`: measured pairs do not connect all hosts. `BadValue`: as [`new`](Self::new).
    pub fn of_pairs(
        hosts: u32,
        latency: &[(u32, u32, Time)],
        rate: Option<&[(u32, u32, Rate)]>,
    ) -> Result<(Self, u64)> {
        let pairs: Vec<_> = latency.iter().map(|&(a, b, time)| (a, b, time.0)).collect();
        let (latency, filled) = completed(hosts, &pairs)?;
        let latency: Vec<Time> = latency.into_iter().map(Time).collect();
        // The lowest rate is the largest of what rates lack to the highest one.
        let lack = u64::MAX >> 1;
        let rate = rate.map(|rates| {
            let pairs: Vec<_> = rates.iter().map(|&(a, b, rate)| (a, b, lack - rate.0.min(lack))).collect();
            completed(hosts, &pairs)
        });
        let rate = rate.transpose()?;
        let filled = rate.as_ref().map_or(filled, |(_, rates)| filled.max(*rates));
        let rate: Option<Vec<Rate>> =
            rate.map(|(all, _)| all.into_iter().map(|less| Rate(lack - less)).collect());
        Ok((Self::new(hosts, &latency, rate.as_deref())?, filled))
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

/// A full matrix from some pairs, and the number of pairs that were missing: of two hosts without a value, the least that
/// some path has as its largest value. Of pairs that are given twice, the larger value counts.
///
/// Paths of a minimum spanning tree are the least in that sense (Hu 1961).
///
/// # Errors
/// `BadDistances`: the pairs do not connect all hosts.
pub fn completed(hosts: u32, pairs: &[(u32, u32, u64)]) -> Result<(Vec<u64>, u64)> {
    let size = hosts as usize;
    let mut matrix: Vec<Option<u64>> = vec![None; size * size];
    for &(a, b, value) in pairs {
        for at in [a as usize * size + b as usize, b as usize * size + a as usize] {
            matrix[at] = Some(matrix[at].map_or(value, |known| known.max(value)));
        }
    }
    // Prim: a joining host reaches all others through the link by which it joins.
    let mut joined: Vec<usize> = Vec::with_capacity(size);
    let mut link: Vec<Option<(u64, usize)>> = vec![None; size];
    let mut outside: Vec<usize> = (1..size).collect();
    let mut widest = vec![0u64; size * size];
    let mut next = 0;
    loop {
        joined.push(next);
        for &other in &outside {
            if let Some(value) = matrix[next * size + other]
                && link[other].is_none_or(|known| value < known.0)
            {
                link[other] = Some((value, next));
            }
        }
        let Some(at) = (0..outside.len())
            .min_by_key(|&at| (link[outside[at]].is_none(), link[outside[at]], outside[at]))
        else {
            break;
        };
        let host = outside.swap_remove(at);
        let Some((value, through)) = link[host] else {
            return Err(Diagnostic::error(
                Code::BadDistances,
                format!("measured pairs do not connect host {host} to host 0"),
            )
            .key("host")
            .found(host.to_string())
            .help("measure more pairs, or leave the host out")
            .into());
        };
        for &other in &joined {
            let longest = widest[through * size + other].max(value);
            widest[host * size + other] = longest;
            widest[other * size + host] = longest;
        }
        next = host;
    }
    let filled = (0..size * size).filter(|&at| at / size < at % size && matrix[at].is_none()).count() as u64;
    Ok((matrix.into_iter().zip(widest).map(|(known, path)| known.unwrap_or(path)).collect(), filled))
}
