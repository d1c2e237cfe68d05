//! Speed of a guest's kernel code under this machine's KVM.
//!
//! A /dev/kvm that opens says little: without hardware virtualisation under it, it may emulate kernel code instruction by
//! instruction, a thousand times slower, and a stock kernel then takes minutes to boot.

use std::fs;
use std::time::Duration;

use belfry_process::scratch::Scratch;

use crate::config::Config;

use crate::ending::End;

use crate::error::KvmError;

use crate::machine::Machine;

/// Turns of the loop, of two instructions each: few, for the time of the machine's start, and many.
const TURNS: (u32, u32) = (1_000, 400_000);
/// Number of runs; the fastest one counts, as the others may have been interrupted.
const RUNS: u32 = 3;
/// Time limit of one run.
const LIMIT: Duration = Duration::from_secs(2);
/// Most nanoseconds per instruction on hardware. Hardware needs a fraction of it, emulators ten times more.
pub const SLOWEST: f64 = 50.0;
/// Address of the guest's code.
const START: u64 = 1 << 20;

/// Speed of a guest's kernel code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Nanoseconds per instruction.
    pub nanoseconds: f64,
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a guest's kernel code runs at {:.1} ns per instruction", self.nanoseconds)
    }
}

/// Opens /dev/kvm and checks that it has all that the machine needs.
///
/// # Errors
///
/// A missing feature.
pub fn check() -> Result<(), KvmError> {
    super::host::open().map(drop)
}

/// Runs a loop in a guest's kernel mode.
///
/// # Errors
///
/// A machine that cannot be made, or whose guest does not reach its end; a run that takes too long is no error, but
/// slow.
pub fn measure() -> Result<Speed, KvmError> {
    let few = fastest(TURNS.0)?;
    let many = fastest(TURNS.1)?;
    let instructions = f64::from(2 * (TURNS.1 - TURNS.0));
    // A time below the clock's resolution is still more than 0.
    let nanoseconds = (many.saturating_sub(few).as_secs_f64() * 1e9 / instructions).max(0.001);
    Ok(Speed { nanoseconds })
}

/// Returns the shortest time of a machine for this number of turns.
fn fastest(turns: u32) -> Result<Duration, KvmError> {
    let file = |source| KvmError::Setup { what: "write the probe's kernel", source };
    let scratch = Scratch::new().map_err(file)?;
    let kernel = scratch.path().join("probe.elf");
    fs::write(&kernel, elf(&code(turns))).map_err(file)?;
    let mut fastest = LIMIT;
    for _ in 0..RUNS {
        let config = Config { memory: 4 << 20, ..Config::new(&kernel) };
        let outcome = Machine::new(config)?.run(LIMIT, &mut |_| ())?;
        match outcome.end {
            End::Exit(0) => fastest = fastest.min(outcome.ran),
            End::Timeout(_) => {}
            end => return Err(KvmError::Ended(end.to_string())),
        }
        // At this time, no other run would change the answer.
        if outcome.ran.as_secs_f64() * 1e9 > 4.0 * SLOWEST * f64::from(2 * turns.max(TURNS.1 / 2)) {
            break;
        }
    }
    Ok(fastest)
}

/// Returns `mov ecx, turns; 1: dec ecx; jnz 1b; xor eax, eax; out 0xf4, al; hlt`.
fn code(turns: u32) -> Vec<u8> {
    let mut code = vec![0xb9];
    code.extend(turns.to_le_bytes());
    code.extend([0xff, 0xc9, 0x75, 0xfc, 0x31, 0xc0, 0xe6, 0xf4, 0xf4]);
    code
}

/// Makes a 64-bit ELF executable with one segment, entered at its start.
fn elf(code: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for value in [START, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for value in [64u16, 56, 1, 0, 0, 0] {
        file.extend(value.to_le_bytes());
    }
    // PT_LOAD, readable, writable and executable.
    file.extend(1u32.to_le_bytes());
    file.extend(7u32.to_le_bytes());
    for value in [120, START, START, code.len() as u64, code.len() as u64, 1] {
        file.extend(value.to_le_bytes());
    }
    file.extend(code);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_runs_to_its_end_and_measures() {
        let speed = measure().unwrap();
        assert!(speed.nanoseconds > 0.0 && speed.nanoseconds.is_finite(), "{speed}");
    }
}
