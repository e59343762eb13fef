//! Ranks in processes of their own: a test runs its own program again for each.

use crate::members::free_port;
use std::process::{Command, Stdio};

/// The variable that gives a process its rank, the number of ranks, and rank 0's port.
const ARGUMENTS: &str = "SYNCLINE_TEST_RANK";

/// Runs the ignored test `test` in `ranks` processes, one for each rank, and waits until all have ended. Only rank 0 prints.
pub(crate) fn run(test: &str, ranks: u32) {
    let port = free_port();
    let start = |rank| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(ARGUMENTS, format!("{rank} {ranks} {port}"))
            .stdout(if rank == 0 { Stdio::inherit() } else { Stdio::null() })
            .spawn()
            .unwrap()
    };
    let mut processes: Vec<_> = (0..ranks).map(start).collect();
    let succeeded: Vec<bool> =
        processes.iter_mut().map(|process| process.wait().unwrap().success()).collect();
    let failed: Vec<usize> = (0..succeeded.len()).filter(|&rank| !succeeded[rank]).collect();
    assert!(failed.is_empty(), "ranks {failed:?} failed");
}

/// The rank, the number of ranks and rank 0's port, in a process that [`run`] has started.
pub(crate) fn own() -> Option<(u32, u32, u16)> {
    let arguments = std::env::var(ARGUMENTS).ok()?;
    let numbers: Vec<u32> = arguments.split(' ').map(|number| number.parse().unwrap()).collect();
    Some((numbers[0], numbers[1], numbers[2] as u16))
}
