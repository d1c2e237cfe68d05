//! The waves that are on the engine, for users who ask why a program does not end.

use std::fmt;
use std::sync::Arc;

use belfry_isa::disasm::disassemble;
use belfry_isa::inst::WaveSize;
use belfry_isa::wave::Wave;

use super::{Dispatch, ShaderEngine};
use crate::chip::Generation;
use crate::shader::workgroup::Waiting;
use crate::vm::AddressSpace;

/// Longest instructions first, then shorter ones that may be the last before the end of a page.
const LENGTHS: [usize; 3] = [20, 8, 4];

/// A wave that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningWave {
    /// Position of its queue's doorbell in its process's slice.
    pub doorbell: u32,
    /// Identifier of its workgroup.
    pub workgroup: [u32; 3],
    /// Its number in the workgroup.
    pub wave: u32,
    /// Address of its kernel's first instruction.
    pub entry: u64,
    /// Address of its next instruction.
    pub pc: u64,
    /// The next instruction in assembly language; `None` if it cannot be read.
    pub instruction: Option<String>,
    /// Event that it waits for.
    pub waiting: Waiting,
}

/// Work that has begun and not ended, and work that has not begun.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningWaves {
    /// The first waves, as many as were asked for.
    pub first: Vec<RunningWave>,
    /// All waves that have begun and not ended.
    pub waves: u64,
    /// Workgroups that have not begun.
    pub workgroups_left: u64,
}

impl fmt::Display for RunningWave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doorbell, workgroup: [x, y, z], wave, entry, pc, instruction, waiting } = self;
        write!(f, "queue {doorbell:#x}, workgroup ({x}, {y}, {z}), wave {wave}: ")?;
        match waiting {
            Waiting::Nothing => {}
            waiting => write!(f, "{waiting}, ")?,
        }
        // A wave in its trap handler is far from the kernel's entry.
        match pc.checked_sub(*entry).filter(|offset| *offset < 1 << 24) {
            Some(offset) => write!(f, "at {pc:#x}, {offset:#x} behind the kernel's entry")?,
            None => write!(f, "at {pc:#x}, of a kernel that begins at {entry:#x}")?,
        }
        match instruction {
            Some(instruction) => write!(f, ": {instruction}"),
            None => f.write_str(": memory that cannot be read"),
        }
    }
}

impl fmt::Display for RunningWaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, waves, workgroups_left } = self;
        if *waves == 0 && *workgroups_left == 0 {
            return f.write_str("no wave is on the GPU");
        }
        write!(f, "{waves} waves are on the GPU, {workgroups_left} workgroups have not begun")?;
        for wave in first {
            write!(f, "\n  {wave}")?;
        }
        match waves.saturating_sub(first.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl ShaderEngine {
    /// Takes the times that compiled code has counted since the last call.
    pub fn take_code_times(&self) -> belfry_isa::exec::CodeTimes {
        self.shared.code.take_times()
    }

    /// Returns the waves on the engine, at most `most` of them one by one. The engine is held meanwhile, so that all of
    /// them are between two instructions.
    pub(crate) fn running_waves(&self, most: usize) -> RunningWaves {
        let _held = self.hold();
        let dispatches: Vec<Arc<Dispatch>> = {
            let state = self.shared.lock();
            state.queues.iter().flat_map(|active| &active.dispatches).cloned().collect()
        };
        let mut running = RunningWaves::default();
        for dispatch in dispatches.iter().filter(|dispatch| !dispatch.is_settled()) {
            running.workgroups_left += dispatch.unclaimed.left();
            dispatch.each_wave(&mut |workgroup, number, waiting, wave| {
                running.waves += 1;
                if running.first.len() < most {
                    running.first.push(RunningWave {
                        doorbell: dispatch.launch().doorbell,
                        workgroup,
                        wave: number,
                        entry: dispatch.launch().entry,
                        pc: wave.pc(),
                        instruction: instruction(self.shared.chip, dispatch.queue().space(), wave),
                        waiting,
                    });
                }
            });
        }
        running
    }
}

/// Returns the instruction that a wave executes next.
fn instruction(chip: &Generation, space: &AddressSpace, wave: &Wave) -> Option<String> {
    let mut bytes = [0; LENGTHS[0]];
    let readable =
        LENGTHS.into_iter().find(|&length| space.read_bytes(wave.pc(), &mut bytes[..length]).is_ok());
    let size = if wave.lanes() == 32 { WaveSize::Wave32 } else { WaveSize::Wave64 };
    let line = disassemble(chip.arch, size, &bytes[..readable?], wave.pc()).next()?;
    Some(line.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_told_with_where_they_are_and_what_they_wait_for() {
        let wave = RunningWave {
            doorbell: 0x10,
            workgroup: [1, 2, 3],
            wave: 4,
            entry: 0x1000,
            pc: 0x1020,
            instruction: Some("s_branch 65535".into()),
            waiting: Waiting::Nothing,
        };
        let text = wave.to_string();
        assert_eq!(
            text,
            "queue 0x10, workgroup (1, 2, 3), wave 4: at 0x1020, 0x20 behind the kernel's entry: s_branch 65535"
        );
        let handler = RunningWave { pc: 0x20, waiting: Waiting::Barrier, instruction: None, ..wave.clone() };
        let text = handler.to_string();
        assert!(text.contains("waits at a barrier, at 0x20, of a kernel that begins at 0x1000"), "{text}");
        assert!(text.ends_with("memory that cannot be read"), "{text}");
        let all = RunningWaves { first: vec![wave; 2], waves: 5, workgroups_left: 7 }.to_string();
        assert!(all.starts_with("5 waves are on the GPU, 7 workgroups have not begun\n"), "{all}");
        assert!(all.ends_with("\n  and 3 more"), "{all}");
        assert_eq!(RunningWaves::default().to_string(), "no wave is on the GPU");
    }
}
