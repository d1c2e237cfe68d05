//! State of one wave: registers, program counter, mode, and the values that it was launched with.

mod alter;
pub(crate) mod barriers;
pub mod context;
mod dynamic;
pub(crate) mod fault;
pub(crate) mod lds;
mod order;
pub(crate) mod partly_done;
pub mod save;
mod show;
mod start;
pub(crate) mod touched;
pub mod trap;
mod vgprs;

use crate::inst::{Arch, FloatConst, WaveSize};
pub(crate) use crate::lanes::Chunk;
pub use crate::registers::{MAX_ALLOCATION, MAX_VGPR_BLOCKS, MAX_VGPRS, VGPR_BLOCK};
use crate::registers::{RegisterFile, slot};
use crate::wave::barriers::BARRIERS;
use crate::wave::partly_done::PartlyDone;
use crate::wave::trap::{EXCP_EN, TrapHandler, status};

pub use alter::RegisterName;
pub use start::{OWN_SGPRS, Own, Start};
pub(crate) use vgprs::{ROWS, Row, TEMP_ROW, Vgprs, ZERO_ROW};

/// State that a wave starts with, set up by the dispatcher as the hardware does (SPI).
#[derive(Clone, Copy, Debug)]
pub struct WaveInit<'a> {
    /// Instruction set, which decides what registers there are.
    pub arch: Arch,
    /// Address of the first instruction.
    pub pc: u64,
    /// Lanes that exist.
    pub exec: u64,
    /// 32 or 64 lanes (`ENABLE_WAVEFRONT_SIZE32` of the kernel descriptor).
    pub wave_size: WaveSize,
    /// `s0..`, at most as many as the architecture has (106 on gfx11).
    pub sgprs: &'a [u32],
    /// `v0..`, one array of lanes each; a wave32 uses the first 32.
    pub vgprs: &'a [[u32; 64]],
    /// Vector registers allocated, at most as many as the architecture has (256 on gfx11; 512 on gfx942, accumulation registers
    /// included); using one beyond stops the wave.
    pub vgpr_count: u16,
    /// Number of them that are `v0..`: those from there on are `a0..` (gfx942; `COMPUTE_PGM_RSRC3.ACCUM_OFFSET` in
    /// units of 4, plus 4).
    pub accum_offset: u16,
    /// Further vector registers, numbered from `vgpr_count` on, of 32 lanes that both halves of a wave64 share
    /// (`COMPUTE_PGM_RSRC3.SHARED_VGPR_COUNT` in units of 8); as many together at most. A wave32 has none.
    pub shared_vgprs: u16,
    /// True if the wave allocates vector registers while it runs (`COMPUTE_PGM_RSRC2.ENABLE_DYNAMIC_VGPR`). It does
    /// so in blocks, and begins with `vgpr_count` registers, or with a block if that is more. Only waves of 32 lanes
    /// on gfx12 do.
    pub allocates_vgprs: bool,
    /// `MODE` register: bits 3:0 `FP_ROUND`, 7:4 `FP_DENORM`, 8 `DX10_CLAMP`, 9 `IEEE`, 18:12 `EXCP_EN` (the first eight
    /// bits are `COMPUTE_PGM_RSRC1.FLOAT_MODE`, `EXCP_EN` is `COMPUTE_PGM_RSRC2.ENABLE_EXCEPTION_*`).
    pub mode: u32,
    /// `FLAT_SCRATCH`: GPU virtual address of this wave's scratch, wave offset included. On gfx942 its registers begin with it.
    pub scratch_base: u64,
    /// Bytes of scratch each lane has; 0 when it has none.
    pub scratch_size_per_lane: u32,
    /// `HW_ID1` as `s_getreg_b32` shows it; `HW_ID` on gfx942.
    pub hw_id1: u32,
    /// `HW_ID2` as `s_getreg_b32` shows it; `XCC_ID` on gfx942.
    pub hw_id2: u32,
    /// The process's trap handler; without one exceptions are recorded and traps stop the wave.
    pub trap: Option<TrapHandler>,
    /// Position of the queue's doorbell in its process's slice, for `s_sendmsg_rtn MSG_RTN_GET_DOORBELL`.
    pub doorbell: u32,
    /// The wave is one of several of its workgroup (`STATUS.IN_TG`).
    pub in_workgroup: bool,
    /// Address of the table of border colours of images (`TA_CS_BC_BASE_ADDR`).
    pub border_colors: u64,
}

impl Default for WaveInit<'_> {
    /// A full wave32 of gfx1100 at address 0 with all vector registers and the modes compilers ask for.
    fn default() -> Self {
        let arch = Arch::Gfx1100;
        WaveInit {
            arch,
            pc: 0,
            exec: u64::from(u32::MAX),
            wave_size: WaveSize::Wave32,
            sgprs: &[],
            vgprs: &[],
            vgpr_count: RegisterFile::of(arch).vgprs,
            shared_vgprs: 0,
            allocates_vgprs: false,
            accum_offset: 0,
            mode: Wave::DEFAULT_MODE,
            scratch_base: 0,
            scratch_size_per_lane: 0,
            hw_id1: 0,
            hw_id2: 0,
            trap: None,
            doorbell: 0,
            in_workgroup: false,
            border_colors: 0,
        }
    }
}

/// A wave, ready to run or stopped between two instructions.
///
/// The order of the fields is the one in memory: scalar registers fill whole cache lines, which are cleared for every
/// wave, and the fields that every instruction reads follow in one more.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Wave {
    /// Scalar registers; see [`slot`].
    pub(crate) s: [u32; 256],
    pub(crate) v: Vgprs,
    /// Its architecture's registers.
    pub(crate) file: &'static RegisterFile,
    pub(crate) pc: u64,
    /// Executed instructions; waits, hints and nops are not counted, a VOPD counts once.
    pub instructions: u64,
    /// 32-lane halves: 1 or 2.
    pub(crate) halves: u32,
    pub(crate) mode: u32,
    /// Exceptions of the float operation at hand.
    pub(crate) raised: u32,
    /// `STATUS` bits that are state of their own; see [`status`](crate::wave::trap::status).
    pub(crate) status: u32,
    /// Vector registers of its own.
    pub(crate) vgpr_count: u16,
    /// Vector registers it can name: its own, then those its halves share.
    pub(crate) registers: u16,
    /// First accumulation register, where the architecture has them.
    pub(crate) accumulators_from: u16,
    /// Vector registers of a block, if it allocates them while it runs; else 0.
    pub(crate) vgpr_block: u16,
    /// True if float operations record their exceptions.
    pub(crate) watched: bool,
    /// Runs end when it comes out of its trap handler.
    pub(crate) stops_at_return: bool,
    /// True if the wave has looked for writes of other waves; see [`Wave::take_looked`].
    pub(crate) looked: bool,
    /// True if the wave has done the instruction after which it enters its trap handler; see [`Wave::has_stepped`].
    pub(crate) stepped: bool,
    /// `TRAPSTS`.
    pub(crate) trapsts: u32,
    pub(crate) scratch_base: u64,
    pub(crate) scratch_size: u32,
    pub(crate) hw_id: [u32; 2],
    pub(crate) doorbell: u32,
    pub(crate) border_colors: u64,
    /// EXEC while an instruction runs with fewer lanes (DPP).
    pub(crate) saved_exec: [u32; 2],
    /// Lanes that write registers shared by the halves.
    pub(crate) writing: u64,
    /// Lanes that the instruction at hand has done, if it faults.
    pub(crate) done: u64,
    pub(crate) handler: TrapHandler,
    /// Progress of instructions that faulted: one of the program, and one of its trap handler.
    pub(crate) partly_done: [PartlyDone; 2],
    /// Accesses of LDS since the last barrier, as bits (`wave/order.rs`).
    pub(crate) lds_order: u8,
    /// Address of the last `s_barrier`, `s_barrier_wait` or `s_trap`.
    pub(crate) stopped_at: u64,
    /// Completions of each split barrier that it has waited for; see `exec/waves/barrier.rs`.
    pub(crate) barriers_taken: [u32; BARRIERS],
    /// The split barrier that it waits at.
    pub(crate) waits_at: Option<u8>,
    /// Answer of `MSG_RTN_SAVE_WAVE` while the wave is asked to save its context.
    pub(crate) context_slot: Option<u64>,
}

impl Wave {
    /// `MODE` that clang's kernel descriptors ask for: round to nearest even, denormals kept, `DX10_CLAMP`, `IEEE`.
    pub const DEFAULT_MODE: u32 = 0x3f0;

    /// A wave as the dispatcher launches it.
    pub fn new(init: &WaveInit<'_>) -> Self {
        let mut wave = Wave {
            v: Vgprs::new(),
            file: RegisterFile::of(init.arch),
            s: [0; 256],
            halves: 1,
            vgpr_count: 0,
            registers: 0,
            accumulators_from: 0,
            vgpr_block: 0,
            mode: 0,
            pc: 0,
            scratch_base: 0,
            scratch_size: 0,
            hw_id: [0; 2],
            status: 0,
            trapsts: 0,
            raised: 0,
            watched: false,
            handler: TrapHandler::default(),
            doorbell: 0,
            border_colors: 0,
            saved_exec: [0; 2],
            writing: 0,
            done: 0,
            partly_done: [PartlyDone::default(); 2],
            lds_order: 0,
            stopped_at: 0,
            barriers_taken: [0; BARRIERS],
            waits_at: None,
            context_slot: None,
            stops_at_return: false,
            looked: false,
            stepped: false,
            instructions: 0,
        };
        wave.launch(init);
        wave
    }

    /// Starts a new wave in this one's storage, which is cheaper than [`Wave::new`]; the instruction count restarts too.
    pub fn restart(&mut self, init: &WaveInit<'_>) {
        let used = u32::from(self.registers) * self.halves;
        vgprs::clear(&mut self.v.0[..(used as usize).min(ROWS)]);
        self.s = [0; 256];
        self.launch(init);
    }

    /// Sits elsewhere on the GPU from now on: `HW_ID1`, and the `WG_ID` of `HW_ID2` (bits 20:16).
    pub fn move_to(&mut self, hw_id1: u32, group: u32) {
        let moved = [hw_id1, self.hw_id[1]];
        self.hw_id = core::array::from_fn(|n| {
            let mask = self.file.workgroup_id[n];
            moved[n] & !mask | group & mask
        });
    }

    fn launch(&mut self, init: &WaveInit<'_>) {
        self.halves = match init.wave_size {
            WaveSize::Wave32 => 1,
            WaveSize::Wave64 => 2,
        };
        self.file = RegisterFile::of(init.arch);
        let most = self.file.allocation();
        self.vgpr_block = if init.allocates_vgprs && self.halves == 1 { self.file.vgpr_block } else { 0 };
        self.vgpr_count = match self.vgpr_block {
            0 => init.vgpr_count.min(most),
            block => init.vgpr_count.clamp(block, block * MAX_VGPR_BLOCKS).next_multiple_of(block),
        };
        let unified = self.file.unified.is_some();
        let shared = if self.halves == 1 || unified { 0 } else { init.shared_vgprs };
        self.registers = self.vgpr_count.saturating_add(shared).min(most);
        self.accumulators_from = match init.accum_offset {
            _ if !unified => 0,
            0 => self.vgpr_count.min(self.file.vgprs),
            offset => offset.min(self.file.vgprs),
        };
        self.mode = self.file.internal_mode(init.mode);
        self.pc = init.pc;
        self.scratch_base = init.scratch_base;
        self.scratch_size = init.scratch_size_per_lane;
        self.hw_id = [init.hw_id1, init.hw_id2];
        self.handler = init.trap.unwrap_or_default();
        self.doorbell = init.doorbell;
        self.border_colors = init.border_colors;
        (self.trapsts, self.raised) = (0, 0);
        self.watched = init.mode & EXCP_EN != 0;
        self.status = status::VALID;
        for (bit, is_set) in [
            (status::TRAP_EN, init.trap.is_some_and(|handler| handler.takes_traps)),
            (status::IN_TG, init.in_workgroup),
            (status::SCRATCH_EN, init.scratch_size_per_lane != 0),
        ] {
            self.status |= if is_set { bit } else { 0 };
        }
        (self.context_slot, self.stops_at_return) = (None, false);
        (self.barriers_taken, self.waits_at) = ([0; BARRIERS], None);
        (self.looked, self.stepped) = (false, false);
        self.done = 0;
        self.partly_done = [PartlyDone::default(); 2];
        self.lds_order = 0;
        self.instructions = 0;
        for (register, value) in self.s[..usize::from(self.file.sgprs)].iter_mut().zip(init.sgprs) {
            *register = *value;
        }
        if self.file.flat_scratch.is_some() {
            self.set_pair(slot::FLAT_SCRATCH, init.scratch_base);
        }
        self.set_pair(slot::INV_TWO_PI, FloatConst::InvTwoPi.f64_bits());
        self.set_pair(slot::EXEC, if self.halves == 1 { init.exec & 0xffff_ffff } else { init.exec });
        let registers = init.vgprs.iter().take(usize::from(self.vgpr_count));
        for (register, lanes) in (0u32..).zip(registers) {
            for (half, lanes) in (0..self.halves).zip(lanes.as_chunks::<32>().0) {
                let row = self.v.row_mut(register * self.halves + half);
                for (chunk, words) in row.iter_mut().zip(lanes.as_chunks::<16>().0) {
                    chunk.0 = *words;
                }
            }
        }
    }

    /// Address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.pc
    }

    /// Continues at `pc` (debuggers, trap handlers).
    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }

    /// Lanes: 32 or 64.
    pub fn lanes(&self) -> u32 {
        self.halves * 32
    }

    /// GPU virtual address of a byte of a lane's private memory: dwords of all lanes side by side.
    #[inline(always)]
    pub fn private_address(&self, lane: u32, offset: u32) -> u64 {
        let dword = u64::from(offset & !3) * u64::from(self.halves * 32);
        self.scratch_base.wrapping_add(dword + u64::from(lane * 4) + u64::from(offset & 3))
    }

    /// `EXEC`.
    pub fn exec(&self) -> u64 {
        self.pair(slot::EXEC)
    }

    /// Returns true if the wave has looked for writes of waves of other workgroups since the last call: by coherent
    /// loads, by atomics that return a value, or by invalidating caches. If it waits for one of those waves, that
    /// wave has to run.
    pub fn take_looked(&mut self) -> bool {
        core::mem::take(&mut self.looked)
    }

    /// Returns true if the wave waits at a split barrier, and not at one where arriving and waiting are one
    /// instruction.
    pub fn waits_at_split_barrier(&self) -> bool {
        self.waits_at.is_some()
    }

    /// Goes on after the split barrier that it waits at.
    pub fn pass_split_barrier(&mut self) {
        self.waits_at = None;
    }

    /// `M0`.
    pub fn m0(&self) -> u32 {
        self.s[slot::M0]
    }

    /// `SCC`.
    pub fn scc(&self) -> bool {
        self.s[slot::SCC] != 0
    }

    /// Sets `SCC`.
    pub fn set_scc(&mut self, value: bool) {
        self.s[slot::SCC] = u32::from(value);
    }

    /// Scalar register by its number in the architecture (gfx11: `VCC` 106, `M0` 125, `EXEC` 126); 0 for `NULL` and for
    /// numbers that are not registers.
    #[inline]
    pub fn sgpr(&self, register: u8) -> u32 {
        self.file.slot(register).map_or(0, |slot| self.s[slot & 255])
    }

    /// Sets a scalar register by its number; `NULL` and numbers that are not registers stay as they are.
    #[inline]
    pub fn set_sgpr(&mut self, register: u8, value: u32) {
        if let Some(slot) = self.file.slot(register) {
            self.s[slot & 255] = value;
        }
    }

    /// Sets scalar register `number` if it is one of the general ones.
    #[inline(always)]
    pub fn set_general_sgpr(&mut self, number: usize, value: u32) {
        if number < usize::from(self.file.sgprs) {
            self.s[number & 255] = value;
        }
    }

    /// Sets `HW_ID2` (`XCC_ID` on gfx942).
    #[inline]
    pub fn set_hw_id2(&mut self, value: u32) {
        self.hw_id[1] = value;
    }

    /// Sets trap temporary `number`, which there are sixteen of.
    #[inline]
    pub fn set_ttmp(&mut self, number: u8, value: u32) {
        self.s[slot::TTMP0 + usize::from(number & 15)] = value;
    }

    /// One lane of a vector register; 0 for lanes a wave32 does not have.
    pub fn vgpr(&self, register: u8, lane: u32) -> u32 {
        if lane >= self.lanes() { 0 } else { self.v.lane(self.row_of(register, lane), lane & 31) }
    }

    /// Sets one lane of a vector register.
    pub fn set_vgpr(&mut self, register: u8, lane: u32, value: u32) {
        if lane < self.lanes() {
            let row = self.row_of(register, lane);
            self.v.set_lane(row, lane & 31, value);
            if u16::from(register) >= self.vgpr_count && self.has_shared_vgprs() {
                self.v.set_lane(row ^ 1, lane & 31, value);
            }
        }
    }

    /// One lane of an accumulation register; 0 where there are none.
    pub fn agpr(&self, register: u8, lane: u32) -> u32 {
        self.accumulator(register, lane).map_or(0, |row| self.v.lane(row, lane & 31))
    }

    /// Sets one lane of an accumulation register.
    pub fn set_agpr(&mut self, register: u8, lane: u32, value: u32) {
        if let Some(row) = self.accumulator(register, lane) {
            self.v.set_lane(row, lane & 31, value);
        }
    }

    /// Row of an accumulation register that is there.
    fn accumulator(&self, register: u8, lane: u32) -> Option<u32> {
        let number = self.accumulators_from + u16::from(register);
        let there = self.file.unified.is_some() && number < self.registers && lane < self.lanes();
        there.then(|| u32::from(number) * self.halves + lane / 32)
    }

    /// First vector register of the second kind, those shared by halves or those for accumulation; 0 when there are none.
    pub(crate) fn second_from(&self) -> u16 {
        if self.has_shared_vgprs() { self.vgpr_count } else { self.accumulators_from }
    }

    /// Returns true if the halves of the wave share vector registers.
    #[inline(always)]
    pub(crate) fn has_shared_vgprs(&self) -> bool {
        self.registers > self.vgpr_count
    }

    fn row_of(&self, register: u8, lane: u32) -> u32 {
        u32::from(register) * self.halves + lane / 32
    }

    #[inline(always)]
    pub(crate) fn pair(&self, low: usize) -> u64 {
        u64::from(self.s[low & 255]) | u64::from(self.s[(low + 1) & 255]) << 32
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "split into halves")]
    pub(crate) fn set_pair(&mut self, low: usize, value: u64) {
        self.s[low & 255] = value as u32;
        self.s[(low + 1) & 255] = (value >> 32) as u32;
    }
}
