//! The bare-metal guest as a measuring guest: its samples, and the times at which the command processor saw each
//! doorbell.
//!
//! Guest and host take their times from one counter: the processor's, whose offset in the guest is 0. The guest
//! leaves time stamps in its RAM and prints the address of each series on its serial port;
//! `guests/bare-metal/src/bench.rs` takes them.

#![expect(unsafe_code, reason = "reading the time stamp counter")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pci::DOORBELL_SLICE_SIZE;
use belfry_device::GpuConfig;
use belfry_device::trace::{Kind, Record, TraceSink};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::bare_metal;
use crate::config::{Config, DoorbellMode};
use crate::ending::End;
use crate::error::KvmError;
use crate::machine::Machine;

/// Address at which the guest reads the wanted number of samples.
const SAMPLES_AT: GuestAddress = GuestAddress(0x3f_f000);
/// Largest number of samples of a series.
pub const MAX_SAMPLES: u64 = 20_000;
/// Stores of one sample of the series `ring` and `plain_store`.
pub const BATCH: u32 = 16;

/// Measured times, in ticks of the time stamp counter.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Samples of one or more words, by name.
    pub series: BTreeMap<String, Vec<Vec<u64>>>,
    /// Times at which the command processor noted a doorbell of the process, in order.
    pub seen: Vec<u64>,
    /// Phases that the guest reported, each with the time since the machine's making had begun.
    pub phases: Vec<(String, Duration)>,
    /// Time until the first instruction.
    pub setup: Duration,
    /// Ticks per nanosecond.
    pub ticks: f64,
}

/// Reads the processor's time stamp counter.
fn now() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Records the times of doorbells that are seen.
#[derive(Debug)]
struct Seen(Mutex<Vec<u64>>);

impl TraceSink for Seen {
    fn record(&self, record: &Record) {
        if record.kind == Kind::DoorbellSeen
            && let Some(doorbell) = record.owner.doorbell
            && DoorbellIndex::from_dwords(doorbell).offset().bytes() >= DOORBELL_SLICE_SIZE
        {
            let at = now();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(at);
        }
    }
}

/// Runs the bare-metal guest `kernel`, which takes `samples` of each series, with doorbells in one mode.
///
/// # Errors
///
/// No machine, or a guest that did not end by itself, or that reports a series it does not have.
pub fn run(
    kernel: &Path,
    gpu: &GpuConfig,
    doorbells: DoorbellMode,
    samples: u64,
    limit: Duration,
) -> Result<Recording, KvmError> {
    // The series may ring up to this many doorbells.
    let expected = samples.min(MAX_SAMPLES) as usize * (BATCH as usize + 3);
    let seen = Arc::new(Seen(Mutex::new(Vec::with_capacity(expected))));
    let gpu = GpuConfig { trace: Some(seen.clone()), ..gpu.clone() };
    let config =
        Config { host_clock: true, catch_signals: false, ..bare_metal::config(kernel, gpu, doorbells) };
    let (started, first_tick) = (Instant::now(), now());
    let machine = Machine::new(config)?;
    let memory = machine.memory();
    memory.write_obj(samples.clamp(1, MAX_SAMPLES).to_le(), SAMPLES_AT).map_err(bad)?;
    let mut text = String::new();
    let mut phases = Vec::new();
    let outcome = machine.run(limit, &mut |output| {
        let old = text.len();
        text.push_str(&String::from_utf8_lossy(output));
        let from = text[..old].rfind('\n').map_or(0, |at| at + 1);
        let whole = text[from..].rfind('\n').map_or("", |to| &text[from..from + to]);
        whole.lines().for_each(|line| log::debug!(target: "kvm", "guest: {line}"));
        let reached = whole.lines().filter_map(|line| line.strip_prefix("phase "));
        phases.extend(reached.map(|name| (name.to_owned(), started.elapsed())));
    })?;
    let ticks = (now() - first_tick) as f64 / started.elapsed().as_nanos() as f64;
    if outcome.end != End::Exit(0) {
        return Err(KvmError::Ended(format!("{}: {}", outcome.end, text.trim())));
    }
    let mut series = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("series ")) {
        let (name, samples) = read(&memory, line)?;
        series.insert(name, samples);
    }
    let seen = std::mem::take(&mut *seen.0.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Recording { series, seen, phases, setup: outcome.setup, ticks })
}

fn bad(what: impl std::fmt::Display) -> KvmError {
    KvmError::Ended(format!("what it measured cannot be read: {what}"))
}

/// Reads a series from the line `NAME ADDRESS SAMPLES WORDS`.
fn read(memory: &GuestMemoryMmap, line: &str) -> Result<(String, Vec<Vec<u64>>), KvmError> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, address, samples, words] = parts[..] else { return Err(bad(line)) };
    let number = |text: &str| text.parse::<u64>().map_err(bad);
    let address = address.strip_prefix("0x").ok_or_else(|| bad(line))?;
    let mut at = u64::from_str_radix(address, 16).map_err(bad)?;
    let (samples, words) = (number(samples)?, number(words)?);
    if samples > MAX_SAMPLES || !(1..=8).contains(&words) {
        return Err(bad(line));
    }
    let mut read = || {
        let word = memory.read_obj::<u64>(GuestAddress(at)).map_err(bad);
        at += 8;
        word.map(u64::from_le)
    };
    let sample = |_| (0..words).map(|_| read()).collect();
    Ok((name.to_owned(), (0..samples).map(sample).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_where_they_are_said_to_be() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4096)]).unwrap();
        for word in 0..4u64 {
            memory.write_obj((word + 7).to_le(), GuestAddress(0x100 + word * 8)).unwrap();
        }
        let (name, samples) = read(&memory, "signal 0x100 2 2").unwrap();
        assert_eq!((name.as_str(), samples), ("signal", vec![vec![7, 8], vec![9, 10]]));
    }

    #[test]
    fn series_that_are_not_there_are_refused() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 4096)]).unwrap();
        for line in [
            "",
            "x",
            "x 0x0 1",
            "x 100 1 1",
            "x 0x0 99999999 1",
            "x 0x0 1 0",
            "x 0x0 1 9",
            "x 0xff8 2 1",
            "x 0xz 1 1",
        ] {
            assert!(read(&memory, line).is_err(), "{line}");
        }
    }
}
