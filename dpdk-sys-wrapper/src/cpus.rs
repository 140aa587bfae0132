//! The CPUs that a thread may run on.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs on which the calling thread may run, ascending.
pub fn allowed_cpus() -> Vec<u32> {
    // Without an answer from the kernel CPU 0 is the one that always exists.
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return vec![0] };
    (0..CpuSet::count()).filter(|&c| set.is_set(c).unwrap_or(false)).map(|c| c as u32).collect()
}

/// `0-3,8` for 0, 1, 2, 3, 8.
pub fn ranges(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    text.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ranges_read_as_people_write_them() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[1, 3, 5, 6]), "1,3,5-6");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn some_cpu_is_allowed() {
        assert!(!allowed_cpus().is_empty());
    }
}
