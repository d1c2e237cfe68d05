//! The register file behind BAR5: finds the block that answers an access, and its offset there.
//!
//! Every [`Block`] lists the registers that it claims, as offsets within its segments; the chip knows the
//! places of the segments. From both, one table gives for every dword of the BAR the block and the segment,
//! so that an access needs one look-up. The bus interface's index/data pairs open windows onto other
//! registers and onto VRAM. A register that no block claims reads its last written value, 0 at first, and its
//! use is counted under its name.

mod save;
mod seen;
mod storage;
mod unmodelled;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use belfry_abi::pci::BAR_REGISTERS;
use belfry_abi::regs::{Ip, Offset};

use crate::chip::Chip;
use crate::guest_error::GuestError;
use crate::io::{IoError, IoResult};
use crate::memory::{Memory, Physical};
use crate::moments::Moment;
use crate::stats::{Counters, count};
use crate::tools::Tools;
use crate::trace::Engine;
pub(crate) use save::SavedRegisters;
pub use seen::SeenRegister;
pub(crate) use seen::pairs;
pub(crate) use storage::{Storage, named};
use unmodelled::Unmodelled;
pub(crate) use windows::Windows;
use windows::{Target, Window};

/// Registers that follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) first: Offset,
    pub(crate) count: u32,
}

/// One instance of an IP block: it owns its registers' state, and knows neither addresses nor other blocks.
///
/// The block gets the other parts that its registers reach (memory contexts, hardware queues, doorbells,
/// interrupts, time) when it is made.
///
/// Its `Debug` names the registers that have another value than after reset; reading them may have an effect.
pub(crate) trait Block: std::fmt::Debug + Send + Sync {
    /// Kind and instance.
    fn ip(&self) -> (Ip, u8);

    /// Registers it answers.
    fn claims(&self) -> Vec<Run>;

    /// Reads a register it claims.
    fn read(&self, at: Offset) -> u32;

    /// Writes a register it claims.
    fn write(&self, at: Offset, value: u32);

    /// Returns to the values of power on.
    fn reset(&self);

    /// The values that it keeps itself: a snapshot contains nothing else of it.
    fn kept(&self) -> Vec<&AtomicU32>;
}

/// Registers of a segment of a block that are equally far from the places by which the block knows them: the
/// target of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Segment {
    /// Position of the block.
    block: usize,
    segment: u8,
    /// Absolute dword index of the place of its first register, modulo 2^32.
    base: u32,
}

/// The block and the offset that answer a dword.
struct Resolved<'a> {
    block: &'a dyn Block,
    at: Offset,
}

/// The register file.
pub(crate) struct RegisterFile {
    blocks: Vec<Box<dyn Block>>,
    segments: Vec<Segment>,
    /// Per dword of the BAR: 1 more than the position of its segment, or 0 where no block claims it.
    table: Box<[u16]>,
    windows: Arc<Windows>,
    unmodelled: Unmodelled,
    memory: Arc<Memory>,
    chip: Arc<dyn Chip>,
    counters: Arc<Counters>,
    tools: Tools,
}

impl std::fmt::Debug for RegisterFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegisterFile")
            .field("blocks", &self.blocks)
            .field("windows", &self.windows)
            .field("unmodelled", &self.unmodelled())
            .finish_non_exhaustive()
    }
}

impl RegisterFile {
    /// Registers of these blocks, as far as the chip has them; a block the chip does not have is never
    /// reached.
    pub(crate) fn new(
        chip: Arc<dyn Chip>,
        blocks: Vec<Box<dyn Block>>,
        windows: Arc<Windows>,
        memory: Arc<Memory>,
        (counters, tools): (Arc<Counters>, Tools),
    ) -> Self {
        let mut table = vec![0; windows.registers() as usize].into_boxed_slice();
        let mut segments: Vec<Segment> = Vec::new();
        for (position, block) in blocks.iter().enumerate() {
            let (ip, instance) = block.ip();
            for at in
                block.claims().into_iter().flat_map(|run| (0..run.count).map(move |n| run.first.plus(n)))
            {
                let Some(dword) = chip.dword(ip, instance, at) else { continue };
                let Some(entry) = table.get_mut(dword as usize) else { continue };
                let segment =
                    Segment { block: position, segment: at.segment, base: dword.wrapping_sub(at.dword) };
                let known = segments.iter().position(|known| *known == segment).unwrap_or_else(|| {
                    segments.push(segment);
                    segments.len() - 1
                });
                debug_assert!(
                    *entry == 0 || segments[usize::from(*entry) - 1].block == position,
                    "two blocks claim dword {dword:#x}"
                );
                *entry = known as u16 + 1;
            }
        }
        let unmodelled = Unmodelled::default();
        Self { blocks, segments, table, windows, unmodelled, memory, chip, counters, tools }
    }

    /// Returns true if the BAR decodes an absolute dword index.
    fn decodes(&self, dword: u32) -> bool {
        (dword as usize) < self.table.len()
    }

    /// The block that answers an absolute dword index, and the register's offset in it.
    fn resolve(&self, dword: u32) -> Option<Resolved<'_>> {
        let position = usize::from(*self.table.get(dword as usize)?).checked_sub(1)?;
        let segment = self.segments.get(position)?;
        let at = Offset { segment: segment.segment, dword: dword.wrapping_sub(segment.base) };
        Some(Resolved { block: &**self.blocks.get(segment.block)?, at })
    }

    /// Reads at a byte offset in the BAR: 8 bytes, 4 bytes, or a part of 4 bytes.
    ///
    /// # Errors
    ///
    /// Any other width, or across a register's end.
    pub(crate) fn read_bytes(&self, offset: u64, data: &mut [u8]) -> IoResult {
        let (dword, within, len) = ((offset / 4) as u32, (offset % 4) as usize, data.len());
        if len == 8 && within == 0 {
            data[..4].copy_from_slice(&self.read(dword).to_le_bytes());
            data[4..].copy_from_slice(&self.read(dword + 1).to_le_bytes());
        } else if within + len <= 4 {
            data.copy_from_slice(&self.read(dword).to_le_bytes()[within..within + len]);
        } else {
            return Err(IoError::Unsupported { bar: BAR_REGISTERS, offset, len });
        }
        Ok(())
    }

    /// Writes 4 or 8 bytes at a byte offset in the BAR that is a multiple of 4.
    ///
    /// # Errors
    ///
    /// Any other width or offset; nothing is written then.
    pub(crate) fn write_bytes(&self, offset: u64, data: &[u8]) -> IoResult {
        let (words, rest) = data.as_chunks::<4>();
        if !offset.is_multiple_of(4) || !rest.is_empty() || !matches!(words.len(), 1 | 2) {
            return Err(IoError::Unsupported { bar: BAR_REGISTERS, offset, len: data.len() });
        }
        for (dword, word) in ((offset / 4) as u32..).zip(words) {
            self.write(dword, u32::from_le_bytes(*word));
        }
        Ok(())
    }

    /// Reads a register of an instance of its block; 0 if the chip has none.
    pub(crate) fn get_of(&self, ip: Ip, instance: u8, at: Offset) -> u32 {
        self.chip.dword(ip, instance, at).map_or(0, |dword| self.read(dword))
    }

    /// Reads the register at an absolute dword index; beyond the BAR: 0.
    pub(crate) fn read(&self, dword: u32) -> u32 {
        count(&self.counters.register_reads);
        match self.windows.open(dword) {
            None => self.read_direct(dword),
            Some(window) => self.read_window(window),
        }
    }

    fn read_direct(&self, dword: u32) -> u32 {
        match self.resolve(dword) {
            Some(resolved) => resolved.block.read(resolved.at),
            None if self.decodes(dword) => {
                self.unmodelled.read_near(dword, || unmodelled::near_name(&*self.chip, dword))
            }
            None => 0,
        }
    }

    fn read_window(&self, window: Window) -> u32 {
        match self.windows.target(window) {
            Target::Vram(offset) => self.memory.load_u32(Physical::local(offset)).unwrap_or_else(|_| {
                self.outside_of_vram(offset);
                0
            }),
            Target::Register(dword) => self.read_direct(dword),
            Target::Far(address) => self.unmodelled.read_far(address, &self.counters),
            Target::Nothing => {
                self.onto_a_window(window);
                0
            }
        }
    }

    /// Writes the register at an absolute dword index; beyond the BAR: nothing.
    pub(crate) fn write(&self, dword: u32, value: u32) {
        count(&self.counters.register_writes);
        match self.windows.open(dword) {
            None => self.write_direct(dword, value),
            Some(window) => self.write_window(window, value),
        }
    }

    fn write_direct(&self, dword: u32, value: u32) {
        match self.resolve(dword) {
            Some(resolved) => resolved.block.write(resolved.at, value),
            // Guest writes through BAR0 are already visible to the engines: only ordering is left to do.
            None if dword == self.windows.memory_flush() => {
                fence(Ordering::SeqCst);
                self.memory.host_flushed();
            }
            None if self.decodes(dword) => {
                self.unmodelled.write_near(dword, value, || unmodelled::near_name(&*self.chip, dword));
            }
            None => {}
        }
        self.tools.tell(|| Moment::RegisterWritten { dword, value }.on(Engine::Device));
    }

    fn write_window(&self, window: Window, value: u32) {
        match self.windows.target(window) {
            Target::Vram(offset) => {
                if self.memory.store_u32(Physical::local(offset), value).is_err() {
                    self.outside_of_vram(offset);
                }
            }
            Target::Register(dword) => self.write_direct(dword, value),
            Target::Far(address) => self.unmodelled.write_far(address, value, &self.counters),
            Target::Nothing => self.onto_a_window(window),
        }
    }

    fn outside_of_vram(&self, offset: u64) {
        self.counters.error(GuestError::WindowOutsideVram, format_args!("offset={offset:#x}"));
    }

    fn onto_a_window(&self, window: Window) {
        self.counters.error(GuestError::WindowOntoWindow, format_args!("{window:?}"));
    }

    /// Registers that were used and that no block claims: name, reads, writes.
    pub(crate) fn unmodelled(&self) -> Vec<(String, u64, u64)> {
        self.unmodelled.uses(|dword| unmodelled::near_name(&*self.chip, dword))
    }

    /// Returns to the values of power on.
    pub(crate) fn reset(&self) {
        for block in &self.blocks {
            block.reset();
        }
        self.windows.reset();
        self.unmodelled.reset();
    }
}

#[cfg(test)]
mod tests;
