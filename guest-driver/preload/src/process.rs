//! Names of processes that no other process of the machine has.

use std::fs;

/// When a process was started, in ticks since the machine was.
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field of `/proc/PID/stat`; the second one is a name, which may hold anything.
fn started(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Bits that tell this process's namespace of identities from others.
pub(crate) fn namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap_or(0) & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_may_hold_anything() {
        let stat = "71 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 9876 20 21\n";
        assert_eq!(started(stat), Some(9876));
        assert_eq!(started("71 (x) S 1"), None);
        assert_eq!(started(""), None);
        assert!(started_at(std::process::id()).is_some());
    }
}
