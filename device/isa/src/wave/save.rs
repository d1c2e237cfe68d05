//! A wave as plain values, which a snapshot of a device keeps, and the way back to a wave that goes on from there.
//!
//! Lowered code is not part of it: a wave is at an address, and the code there is lowered again.

use crate::registers::RegisterFile;
use serde::{Deserialize, Serialize};

use crate::inst::{Arch, WaveSize};
use crate::registers::{MAX_VGPR_BLOCKS, slot};
use crate::wave::barriers::BARRIERS;
use crate::wave::partly_done::PartlyDone;
use crate::wave::trap::TrapHandler;
use crate::wave::{Wave, WaveInit};

/// Scalar registers of a wave that are state: the others are constants, and values that instructions refresh.
const SCALARS: usize = slot::EXEC + 2;
/// Bytes of a row of 32 lanes.
const ROW: usize = 32 * 4;

/// A wave between two instructions, which is not on the way to its context save area or from there.
///
/// Its fields may differ from one version of Belfry to the next, so a file that holds it needs a version number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWave {
    size: WaveSize,
    vgpr_count: u16,
    /// With those that its halves share.
    registers: u16,
    /// First accumulation register among its own, where there are any.
    accumulators_from: u16,
    /// True if the wave allocates vector registers while it runs.
    allocates_vgprs: bool,
    /// Rows of 32 lanes in little-endian words, in the order of the registers, two rows for each of a wave64.
    #[serde(with = "serde_bytes")]
    vgprs: Vec<u8>,
    sgprs: Vec<u32>,
    scc: bool,
    mode: u32,
    pc: u64,
    scratch_base: u64,
    scratch_size: u32,
    hw_id: [u32; 2],
    status: u32,
    trapsts: u32,
    raised: u32,
    watched: bool,
    handler: TrapHandler,
    doorbell: u32,
    saved_exec: [u32; 2],
    /// Address of the last `s_barrier`, `s_barrier_wait` or `s_trap`.
    stopped_at: u64,
    barriers_taken: [u32; BARRIERS],
    waits_at: Option<u8>,
    writing: u64,
    done: u64,
    partly_done: [PartlyDone; 2],
    looked: bool,
    stepped: bool,
    instructions: u64,
}

/// Why a saved wave is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More vector registers than the architecture has, or fewer in all than of its own.
    #[error("a wave cannot have {own} vector registers of its own and {all} in all")]
    Vgprs {
        /// Its own.
        own: u16,
        /// With those that its halves share.
        all: u16,
    },
    /// The architecture has no waves of this size.
    #[error("no waves of {0:?}")]
    Size(WaveSize),
    /// The context says that the wave allocates registers, and no wave of this kind does.
    #[error("no such wave allocates vector registers while it runs")]
    NotDynamic,
    /// The bytes of the registers do not match their number.
    #[error("{found} bytes of {what} registers where the wave has {expected}")]
    Contents {
        /// Kind of register.
        what: &'static str,
        /// Bytes found.
        found: usize,
        /// Bytes of the registers.
        expected: usize,
    },
}

impl SavedWave {
    /// Lanes.
    #[must_use]
    pub fn size(&self) -> WaveSize {
        self.size
    }

    /// Returns true if the wave allocates vector registers while it runs.
    #[must_use]
    pub fn allocates_vgprs(&self) -> bool {
        self.allocates_vgprs
    }

    /// Vector registers that it can name.
    #[must_use]
    pub fn registers(&self) -> u16 {
        self.registers
    }
}

impl Wave {
    /// The wave as plain values.
    #[must_use]
    pub fn save(&self) -> SavedWave {
        let rows = u32::from(self.registers) * self.halves;
        let chunks = (0..rows).flat_map(|row| self.v.row(row));
        SavedWave {
            size: if self.halves == 1 { WaveSize::Wave32 } else { WaveSize::Wave64 },
            vgpr_count: self.vgpr_count,
            registers: self.registers,
            accumulators_from: self.accumulators_from,
            allocates_vgprs: self.vgpr_block != 0,
            vgprs: chunks.flat_map(|chunk| chunk.0).flat_map(u32::to_le_bytes).collect(),
            sgprs: self.s[..SCALARS].to_vec(),
            scc: self.scc(),
            mode: self.mode,
            pc: self.pc,
            scratch_base: self.scratch_base,
            scratch_size: self.scratch_size,
            hw_id: self.hw_id,
            status: self.status,
            trapsts: self.trapsts,
            raised: self.raised,
            watched: self.watched,
            handler: self.handler,
            doorbell: self.doorbell,
            saved_exec: self.saved_exec,
            stopped_at: self.stopped_at,
            barriers_taken: self.barriers_taken,
            waits_at: self.waits_at,
            writing: self.writing,
            done: self.done,
            partly_done: self.partly_done,
            looked: self.looked,
            stepped: self.stepped,
            instructions: self.instructions,
        }
    }

    /// A wave that goes on where `saved` was.
    ///
    /// # Errors
    ///
    /// Registers that `arch` does not have, or contents of other registers than it says. Any other value is one that a
    /// program could have brought about.
    pub fn restore(arch: Arch, saved: &SavedWave) -> Result<Self, Error> {
        let file = RegisterFile::of(arch);
        let (own, all) = (saved.vgpr_count, saved.registers);
        let shares = saved.size == WaveSize::Wave64 && file.unified.is_none();
        if all > file.allocation() || own > all || (own != all && !shares) {
            return Err(Error::Vgprs { own, all });
        }
        if !arch.wave_sizes().contains(&saved.size) {
            return Err(Error::Size(saved.size));
        }
        if saved.allocates_vgprs {
            let block = file.vgpr_block;
            if block == 0 || saved.size != WaveSize::Wave32 {
                return Err(Error::NotDynamic);
            }
            if own == 0 || own % block != 0 || own > block * MAX_VGPR_BLOCKS {
                return Err(Error::Vgprs { own, all });
            }
        }
        let mut wave = Wave::new(&WaveInit {
            arch,
            wave_size: saved.size,
            vgpr_count: own,
            shared_vgprs: all - own,
            accum_offset: saved.accumulators_from,
            allocates_vgprs: saved.allocates_vgprs,
            ..WaveInit::default()
        });
        let contents = |what, found, expected| match found == expected {
            true => Ok(()),
            false => Err(Error::Contents { what, found, expected }),
        };
        let rows = usize::from(all) * wave.halves as usize;
        contents("vector", saved.vgprs.len(), rows * ROW)?;
        contents("scalar", saved.sgprs.len() * 4, SCALARS * 4)?;
        for (row, bytes) in (0..).zip(saved.vgprs.chunks_exact(ROW)) {
            for (lane, word) in (0..).zip(bytes.as_chunks::<4>().0) {
                wave.v.set_lane(row, lane, u32::from_le_bytes(*word));
            }
        }
        wave.s[..SCALARS].copy_from_slice(&saved.sgprs);
        wave.set_scc(saved.scc);
        wave.mode = saved.mode;
        wave.pc = saved.pc;
        wave.scratch_base = saved.scratch_base;
        wave.scratch_size = saved.scratch_size;
        wave.hw_id = saved.hw_id;
        wave.status = saved.status;
        wave.trapsts = saved.trapsts;
        wave.raised = saved.raised;
        wave.watched = saved.watched;
        wave.handler = saved.handler;
        wave.doorbell = saved.doorbell;
        wave.saved_exec = saved.saved_exec;
        wave.stopped_at = saved.stopped_at;
        (wave.barriers_taken, wave.waits_at) = (saved.barriers_taken, saved.waits_at);
        wave.writing = saved.writing;
        wave.done = saved.done;
        wave.partly_done = saved.partly_done;
        (wave.looked, wave.stepped) = (saved.looked, saved.stepped);
        wave.instructions = saved.instructions;
        Ok(wave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wave::trap::TrapCause;

    fn wave(size: WaveSize, vgpr_count: u16, shared_vgprs: u16) -> Wave {
        let init = WaveInit { wave_size: size, vgpr_count, shared_vgprs, ..WaveInit::default() };
        let mut wave = Wave::new(&WaveInit {
            pc: 0x1234_5678_9000,
            exec: 0xdead_beef_0bad_cafe,
            sgprs: &[1, 2, 3],
            scratch_base: 0x5000,
            scratch_size_per_lane: 64,
            hw_id1: 3,
            hw_id2: 4,
            trap: Some(TrapHandler { tba: 0x100, tma: 0x200, takes_traps: true }),
            doorbell: 9,
            in_workgroup: true,
            ..init
        });
        for register in 0..vgpr_count + shared_vgprs {
            for lane in 0..wave.lanes() {
                wave.set_vgpr(register as u8, lane, u32::from(register) << 8 | lane);
            }
        }
        for ttmp in 108..124 {
            wave.set_sgpr(ttmp, 7);
        }
        wave.set_scc(true);
        wave.instructions = 77;
        wave.partly_done[0] = PartlyDone::default();
        wave
    }

    #[test]
    fn wave_goes_through_bytes_and_back_unchanged() {
        for (size, own, shared) in
            [(WaveSize::Wave32, 256, 0), (WaveSize::Wave64, 24, 16), (WaveSize::Wave64, 256, 0)]
        {
            let mut original = wave(size, own, shared);
            assert!(original.enter_trap(TrapCause::Host(3)));
            let saved = original.save();
            let bytes = postcard::to_allocvec(&saved).expect("plain values");
            let read: SavedWave = postcard::from_bytes(&bytes).expect("the same values");
            let restored = Wave::restore(Arch::Gfx1100, &read).expect("a wave");
            assert_eq!(restored.save(), saved);
            assert_eq!((restored.pc(), restored.exec(), restored.scc()), (0x100, original.exec(), true));
            assert_eq!((restored.trapsts(), restored.is_privileged()), (1 << 16, true));
            for lane in 0..restored.lanes() {
                assert_eq!(restored.vgpr((own - 1) as u8, lane), original.vgpr((own - 1) as u8, lane));
            }
            assert_eq!(restored.s, original.s, "constants are there again");
        }
    }

    #[test]
    fn registers_that_a_wave_has_allocated_are_saved() {
        let init =
            WaveInit { arch: Arch::Gfx1201, allocates_vgprs: true, vgpr_count: 0, ..WaveInit::default() };
        let mut wave = Wave::new(&init);
        assert!(wave.set_vgprs(48) && !wave.set_vgprs(129));
        wave.set_vgpr(47, 3, 9);
        let saved = wave.save();
        let restored = Wave::restore(Arch::Gfx1201, &saved).expect("a wave");
        assert_eq!((restored.vgprs(), restored.vgpr(47, 3), restored.allocates_vgprs()), (48, 9, true));
        let refused = |change: fn(&mut SavedWave)| {
            let mut saved = saved.clone();
            change(&mut saved);
            Wave::restore(Arch::Gfx1201, &saved).expect_err("no wave")
        };
        let vgprs = |own| Error::Vgprs { own, all: own };
        assert_eq!(refused(|saved| (saved.vgpr_count, saved.registers) = (40, 40)), vgprs(40));
        assert_eq!(refused(|saved| (saved.vgpr_count, saved.registers) = (0, 0)), vgprs(0));
        assert_eq!(refused(|saved| (saved.vgpr_count, saved.registers) = (144, 144)), vgprs(144));
        assert_eq!(refused(|saved| saved.size = WaveSize::Wave64), Error::NotDynamic);
        assert_eq!(Wave::restore(Arch::Gfx1100, &saved).err(), Some(Error::NotDynamic));
    }

    #[test]
    fn registers_that_no_wave_has_are_refused() {
        let good = wave(WaveSize::Wave32, 8, 0).save();
        let refused = |change: fn(&mut SavedWave)| {
            let mut saved = good.clone();
            change(&mut saved);
            Wave::restore(Arch::Gfx1100, &saved).expect_err("no wave")
        };
        let vgprs = |own, all| Error::Vgprs { own, all };
        assert_eq!(refused(|saved| saved.registers = 257), vgprs(8, 257));
        assert_eq!(refused(|saved| saved.registers = 7), vgprs(8, 7));
        assert_eq!(refused(|saved| saved.registers = 9), vgprs(8, 9), "halves that a wave32 does not have");
        let contents = |what, found, expected| Error::Contents { what, found, expected };
        assert_eq!(refused(|saved| saved.vgprs.truncate(1023)), contents("vector", 1023, 1024));
        assert_eq!(refused(|saved| saved.size = WaveSize::Wave64), contents("vector", 1024, 2048));
        assert_eq!(refused(|saved| saved.sgprs.truncate(127)), contents("scalar", 127 * 4, 128 * 4));
    }
}
