//! Pins each thread that moves bytes to a CPU of its own, for as long as the thread lives (luo2020, section 3.2.4),
//! if the machine has enough CPUs for all processes of the job on it. Otherwise the system's scheduler does better.

/// Chooses CPUs for the threads of one process (number `which`) out of `processes` on this machine, all of which have
/// `threads` threads. Returns `None` if there are not enough CPUs.
///
/// Processes get equal, contiguous shares of the `allowed` CPUs. Each process keeps at least one CPU of its share
/// free for its other threads. `turn` is any number that differs between jobs, so that two jobs that do not know of
/// each other seldom choose the same CPUs.
pub fn choose(
    allowed: &[usize],
    processes: usize,
    which: usize,
    threads: usize,
    turn: u32,
) -> Option<Vec<usize>> {
    let share = allowed.len() / processes.max(1);
    if share <= threads {
        return None;
    }
    let own = &allowed[which * share..(which + 1) * share];
    Some((0..threads).map(|thread| own[(turn as usize + thread) % share]).collect())
}

/// An identifier of this machine, the same in all its containers: the kernel's boot ID, which changes at every start.
pub fn machine() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(target_os = "linux")]
pub use linux::{allowed, pin};
#[cfg(not(target_os = "linux"))]
pub use nowhere::{allowed, pin};

#[cfg(target_os = "linux")]
mod linux {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::io;

    /// The CPUs that this process may use.
    pub fn allowed() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
    }

    /// Pins the calling thread to one CPU.
    pub fn pin(cpu: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        set.set(cpu);
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use std::io;

    /// Returns nothing: on this system the CPUs are unknown.
    pub const fn allowed() -> Vec<usize> {
        Vec::new()
    }

    /// Always fails. It is never called, because [`allowed`] returns no CPUs.
    pub fn pin(_: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_thread_gets_a_cpu_if_one_is_left_over() {
        let eight: Vec<usize> = (0..8).collect();
        assert_eq!(choose(&eight, 2, 0, 2, 0), Some(vec![0, 1]));
        assert_eq!(choose(&eight, 2, 1, 2, 0), Some(vec![4, 5]));
        assert_eq!(choose(&eight, 2, 1, 2, 3), Some(vec![7, 4]));
        assert_eq!(choose(&[3, 9], 1, 0, 1, 1), Some(vec![9]));
    }

    #[test]
    fn no_thread_is_pinned_if_there_are_too_few_cpus() {
        assert_eq!(choose(&[0, 1], 2, 0, 1, 0), None);
        assert_eq!(choose(&[0, 1], 1, 0, 2, 0), None);
        assert_eq!(choose(&[0, 1], 8, 7, 1, 0), None);
        assert_eq!(choose(&[], 1, 0, 1, 0), None);
    }

    proptest! {
        #[test]
        fn no_two_threads_of_a_job_get_the_same_cpu(
            (cpus, processes, threads, turn) in (0usize..64, 1usize..10, 1usize..8, any::<u32>()),
        ) {
            let allowed: Vec<usize> = (0..cpus).map(|cpu| 3 * cpu).collect();
            let chosen: Vec<_> =
                (0..processes).map(|which| choose(&allowed, processes, which, threads, turn)).collect();
            let enough = cpus / processes > threads;
            prop_assert!(chosen.iter().all(|each| each.is_some() == enough));
            let mut all: Vec<usize> = chosen.into_iter().flatten().flatten().collect();
            let before = all.len();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len(), before);
            prop_assert!(all.iter().all(|cpu| allowed.contains(cpu)));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_may_use_only_its_cpu() {
        let cpu = *allowed().last().unwrap();
        let seen = std::thread::spawn(move || {
            pin(cpu).unwrap();
            allowed()
        });
        assert_eq!(seen.join().unwrap(), [cpu]);
        assert!(machine().is_some());
    }
}
