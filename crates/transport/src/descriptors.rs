//! The limit on file descriptors. Each connection takes one, and a process may have 1,024 unless it raises its limit.

/// Ensures that the process may open `more` descriptors in addition to those it has. Raises the soft limit as far as
/// needed, if the hard limit allows it.
///
/// # Errors
/// A clause about the process: the hard limit is too low, or the system refuses.
#[cfg(target_os = "linux")]
pub fn reserve(more: u64) -> Result<(), String> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    let Some(needed) = shortfall(open, more, limit.current) else { return Ok(()) };
    if limit.maximum.is_some_and(|most| most < needed) {
        let most = limit.maximum.unwrap_or(u64::MAX);
        return Err(format!(
            "needs {needed} file descriptors (one for each other rank on each lane), but its limit is {most}: \
             use fewer lanes, or raise the limit before the job begins (`ulimit -Hn {needed}` as root)"
        ));
    }
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| format!("needs {needed} file descriptors, but cannot raise its limit: {error}"))
}

/// Does nothing: on other systems, opening a descriptor beyond the limit fails.
#[cfg(not(target_os = "linux"))]
pub const fn reserve(_more: u64) -> Result<(), String> {
    Ok(())
}

/// The number of descriptors that a process with `open` descriptors needs to open `more`, if its limit is lower.
#[cfg(target_os = "linux")]
fn shortfall(open: u64, more: u64, limit: Option<u64>) -> Option<u64> {
    /// For files that the application opens meanwhile, and for connections under way.
    const SPARE: u64 = 128;
    let needed = open + more + SPARE;
    limit.is_some_and(|limit| limit < needed).then_some(needed)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_only_where_it_is_too_low() {
        assert_eq!(shortfall(10, 255, Some(1024)), None);
        assert_eq!(shortfall(10, 4 * 255, Some(1024)), Some(1158));
        assert_eq!(shortfall(10, 1 << 20, None), None, "no limit");
    }

    #[test]
    fn an_error_says_how_many_descriptors_are_needed_and_how_to_raise_the_limit() {
        let why = reserve(1 << 40).unwrap_err();
        assert!(why.contains("needs 1099511") && why.contains("ulimit"), "{why}");
    }
}
