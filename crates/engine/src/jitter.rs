//! Seeded jitter: ranks start at different times, and compute times vary from task to task.
//!
//! Each number depends only on the seed, the rank, the iteration and the task, not on the numbers drawn before it. So
//! the same task of the same rank takes the same time under every network model and plan. If several jobs run, each
//! has its own seed and numbers its ranks from 0, so a job draws the same numbers whether it runs by itself or beside
//! others.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use syncline_units::{RankId, Time};

/// Streams of the generator that nothing else derived from the same seed uses.
const STARTS: u64 = 1 << 63;
const COMPUTE: u64 = STARTS | 1 << 62;
/// Words in a block of the generator. Each drawn number has its own block.
const BLOCK: u128 = 16;

/// What varies, and by how much.
#[derive(Clone, Debug)]
pub struct Jitter {
    /// By job.
    generators: Vec<JobGenerator>,
    start: Time,
    /// `None` if compute times do not vary.
    compute: Option<LogFactor>,
}

/// The generator of a job.
#[derive(Clone, Debug)]
struct JobGenerator {
    /// The first rank of the job; that of the first job is 0.
    first: RankId,
    generator: ChaCha8Rng,
}

impl JobGenerator {
    fn new(first: RankId, seed: u64) -> Self {
        Self { first, generator: ChaCha8Rng::seed_from_u64(seed) }
    }
}

/// The distribution of the logarithm of a factor.
#[derive(Clone, Copy, Debug)]
struct LogFactor {
    mean: f64,
    deviation: f64,
}

impl Default for Jitter {
    fn default() -> Self {
        Self::new(Time::ZERO, 0.0, 0)
    }
}

impl Jitter {
    /// Ranks start up to `start` late, and compute times have a coefficient of variation of `compute`.
    pub fn new(start: Time, compute: f64, seed: u64) -> Self {
        // A lognormal factor of mean 1: s^2 = ln(1 + c^2), m = -s^2 / 2.
        let square = libm::log1p(compute * compute);
        let factor = LogFactor { mean: -square / 2.0, deviation: libm::sqrt(square) };
        let compute = (compute > 0.0).then_some(factor);
        Self { generators: vec![JobGenerator::new(RankId(0), seed)], start, compute }
    }

    /// Jitter for several jobs, given as `(first rank, seed)`, ascending from rank 0. Each rank draws the same
    /// numbers as when its job runs by itself.
    #[must_use]
    pub fn of_jobs(mut self, jobs: impl IntoIterator<Item = (RankId, u64)>) -> Self {
        self.generators = jobs.into_iter().map(|(first, seed)| JobGenerator::new(first, seed)).collect();
        debug_assert!(self.generators.first().is_some_and(|job| job.first == RankId(0)));
        self
    }

    /// Whether compute times vary.
    pub fn varies(&self) -> bool {
        self.compute.is_some()
    }

    /// When `rank` starts: uniform from 0 to the latest start, both included.
    pub fn start(&self, rank: RankId) -> Time {
        if self.start.is_zero() {
            return Time::ZERO;
        }
        let [number, _] = self.draw(STARTS, rank, 0);
        let spread = u128::from(self.start.0) + 1;
        Time(((u128::from(number) * spread) >> u64::BITS) as u64)
    }

    /// Duration of `task` of `rank` in `iteration`, which takes `work` without jitter. The factor is lognormal with
    /// mean 1.
    #[inline]
    pub(crate) fn time(&self, rank: RankId, iteration: u32, task: u32, work: Time) -> Time {
        match self.compute {
            Some(factor) if !work.is_zero() => self.varied(factor, rank, iteration, task, work),
            _ => work,
        }
    }

    fn varied(
        &self,
        LogFactor { mean, deviation }: LogFactor,
        rank: RankId,
        iteration: u32,
        task: u32,
        work: Time,
    ) -> Time {
        let place = u64::from(iteration) << 32 | u64::from(task);
        let [a, b] = self.draw(COMPUTE, rank, place).map(unit);
        // Box-Muller transform; `1 - a` is never 0.
        let normal = libm::sqrt(-2.0 * libm::log(1.0 - a)) * libm::cos(2.0 * std::f64::consts::PI * b);
        let factor = libm::exp(mean + deviation * normal);
        Time((work.0 as f64 * factor).round() as u64)
    }

    /// Draws two numbers for a place.
    fn draw(&self, stream: u64, rank: RankId, place: u64) -> [u64; 2] {
        let job = self.generators.partition_point(|job| job.first <= rank) - 1;
        let JobGenerator { first, generator } = &self.generators[job];
        let mut generator = generator.clone();
        generator.set_stream(stream | u64::from(rank.0 - first.0));
        generator.set_word_pos(u128::from(place) * BLOCK);
        [generator.next_u64(), generator.next_u64()]
    }
}

/// A number in [0, 1), made of the 53 bits that a float holds.
fn unit(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_varies_without_jitter() {
        let jitter = Jitter::default();
        assert!(!jitter.varies());
        assert_eq!((jitter.start(RankId(3)), jitter.time(RankId(3), 1, 2, Time(77))), (Time::ZERO, Time(77)));
    }

    /// Uniform on 0 to L: mean L / 2, variance L^2 / 12, and both ends are reached.
    #[test]
    fn starts_are_uniformly_distributed() {
        let (latest, ranks) = (1_000_000u64, 40_000u32);
        let jitter = Jitter::new(Time(latest), 0.0, 7);
        let starts: Vec<f64> =
            (0..ranks).map(|rank| jitter.start(RankId(rank)).0 as f64 / latest as f64).collect();
        let mean = starts.iter().sum::<f64>() / f64::from(ranks);
        let variance = starts.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(ranks);
        // Four standard errors of each.
        assert!((mean - 0.5).abs() < 4.0 * (1.0 / 12.0 / f64::from(ranks)).sqrt(), "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 4.0 * (1.0 / 180.0 / f64::from(ranks)).sqrt(), "{variance}");
        assert!(starts.iter().all(|&x| (0.0..=1.0).contains(&x)));
        assert_eq!((0..100).map(|rank| Jitter::new(Time(1), 0.0, 0).start(RankId(rank)).0).max(), Some(1));
    }

    /// The factor is lognormal: mean 1, the requested coefficient of variation, median exp(-s^2 / 2).
    #[test]
    fn compute_times_have_the_requested_variation() {
        for wanted in [0.02, 0.3] {
            let jitter = Jitter::new(Time::ZERO, wanted, 7);
            let work = 1e9;
            let count = 40_000;
            let mut factors: Vec<f64> = (0..count)
                .map(|at| {
                    jitter.time(RankId(at % 50), at / 50 % 40, at / 2000, Time(work as u64)).0 as f64 / work
                })
                .collect();
            let n = f64::from(count);
            let mean = factors.iter().sum::<f64>() / n;
            let deviation = (factors.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
            assert!((mean - 1.0).abs() < 4.0 * wanted / n.sqrt(), "{wanted}: {mean}");
            assert!((deviation / wanted - 1.0).abs() < 0.05, "{wanted}: {deviation}");
            factors.sort_by(f64::total_cmp);
            let median = (-(1.0 + wanted * wanted).ln() / 2.0).exp();
            assert!((factors[count as usize / 2] / median - 1.0).abs() < 0.02 * (1.0 + wanted), "{wanted}");
        }
    }

    /// Ranks of joined jobs draw the same numbers as when their job runs by itself.
    #[test]
    fn joined_jobs_draw_the_same_numbers_as_single_jobs() {
        let jitter = |seed| Jitter::new(Time(1 << 40), 0.1, seed);
        let joined = jitter(0).of_jobs([(0, 5), (3, 7), (4, 5)].map(|(first, seed)| (RankId(first), seed)));
        for (rank, seed, own) in [(0, 5, 0), (2, 5, 2), (3, 7, 0), (4, 5, 0), (9, 5, 5)] {
            let [rank, own] = [rank, own].map(RankId);
            assert_eq!(joined.start(rank), jitter(seed).start(own));
            let work = Time(1 << 40);
            assert_eq!(joined.time(rank, 1, 2, work), jitter(seed).time(own, 1, 2, work));
        }
    }

    #[test]
    fn numbers_depend_on_seed_rank_iteration_and_task() {
        let time = |seed, rank, iteration, task| {
            Jitter::new(Time::ZERO, 0.1, seed).time(RankId(rank), iteration, task, Time(1 << 40)).0
        };
        let (first, others) =
            (time(1, 2, 3, 4), [time(0, 2, 3, 4), time(1, 0, 3, 4), time(1, 2, 0, 4), time(1, 2, 3, 0)]);
        assert_eq!(first, time(1, 2, 3, 4));
        assert!(others.iter().all(|&other| other != first), "{first} {others:?}");
        // Golden values: results do not depend on the machine's mathematics library.
        assert_eq!([first, time(7, 0, 0, 0)], [1_355_756_247_565, 1_043_371_159_880]);
    }
}
