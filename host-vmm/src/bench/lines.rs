//! Results as lines on a terminal.

use std::fmt;

use super::Measurement;

/// Column titles of [`Measurement`]'s lines.
pub const HEADER: &str = "kernel       workers  wave instructions  median ms     min ms  ns/wave instr     tier 1       tier 0   wave instr/s  speedup, by worker time, vs CPU";

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<12} {:>7} {:>18} {:>10.3} {:>10.3} {:>14.2} {:>10.2} {:>12.2} {:>12.1} M",
            self.name,
            self.workers,
            self.wave_instructions,
            self.median_ms,
            self.min_ms,
            self.ns_per_wave_instruction,
            self.worker_ns_per_wave_instruction,
            self.interpreted_worker_ns,
            self.wave_instructions_per_second / 1e6
        )?;
        if let Some(speedup) = self.speedup {
            write!(f, " {speedup:>8.2}")?;
        }
        if let Some(speedup) = self.speedup_by_worker_time {
            write!(f, " {speedup:>8.2}")?;
        }
        if let Some(cpu) = self.vs_cpu {
            write!(f, "  {:.1} x the processor's {:.3} ms", cpu.ratio, cpu.median_ms)?;
        }
        if let Some(time) = self.doorbell_to_signal_us {
            write!(f, "  doorbell to signal {time:.2} us")?;
        }
        if let Some(ratio) = self.exact_matrices {
            write!(f, "  {ratio:.2} x with exact matrices")?;
        }
        Ok(())
    }
}
