//! The registers of a wave before its first instruction, as the SPI sets them.

mod save;
mod series;
#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use belfry_isa::inst::WaveSize;
use belfry_isa::trap::TrapHandler;
use belfry_isa::wave::{MAX_VGPR_BLOCKS, OWN_SGPRS, VGPR_BLOCK, Wave, WaveInit};

use super::placement::Need;
use super::scratch::ScratchPool;
use crate::chip::{CuMask, Generation, ShaderRules, XccShares};

pub(super) use series::Series;

/// Most work-items of a workgroup.
pub const MAX_WORKGROUP_SIZE: u32 = 1024;
/// Most SGPRs that a launch initialises: 16 user SGPRs, three workgroup IDs and the workgroup information.
pub const MAX_INITIAL_SGPRS: usize = 32;
/// One wave's part of its workgroup's seat.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaveSeat {
    /// Chip of the compute unit.
    pub(super) chip: &'static Generation,
    /// Slot of the scratch memory that it has.
    pub(super) scratch_slot: Option<u32>,
    /// Place of the wave: bits of `HW_ID1` and `HW_ID2`.
    pub(super) hw_ids: [u32; 2],
}

/// One kernel launch: the grid and the initial state of its waves.
///
/// Sources: LLVM AMDGPUUsage, "Initial Kernel Execution State" (order of SGPRs, packed work-item IDs).
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct Launch {
    /// Address of the first instruction.
    pub entry: u64,
    /// Lanes of a wave.
    pub wave_size: WaveSize,
    /// VGPRs of a wave, when it begins.
    pub vgpr_count: u16,
    /// True if waves allocate VGPRs while they run.
    pub allocates_vgprs: bool,
    /// VGPRs that the halves of a wave64 share, numbered from `vgpr_count` on.
    pub shared_vgprs: u16,
    /// The first of the VGPRs that matrices accumulate in, on chips that number them apart.
    pub accum_offset: u16,
    /// `MODE` register.
    pub mode: u32,
    /// SGPRs the packet processor preloads, `s0..`, at most 16.
    pub user_sgprs: Vec<u32>,
    /// True for each dimension if the workgroup ID of it follows in an SGPR.
    pub workgroup_id_sgprs: [bool; 3],
    /// True if the workgroup information SGPR follows.
    pub workgroup_info_sgpr: bool,
    /// Work-item IDs in `v0`: 0 x, 1 x and y, 2 x, y and z.
    pub workitem_id_dims: u32,
    /// Work-items of the grid, counted from its origin wherever its workgroups begin.
    pub grid: [u32; 3],
    /// Identifier of the first workgroup; those before it do not run.
    pub start: [u32; 3],
    /// Work-items of a workgroup; none is 0 and there are at most [`MAX_WORKGROUP_SIZE`] in all.
    pub workgroup: [u32; 3],
    /// Bytes of LDS of a workgroup.
    pub lds_size: u32,
    /// Scratch memory, if the kernel uses any; a snapshot has it with the queue.
    #[serde(skip)]
    pub scratch: Option<Arc<ScratchPool>>,
    /// Bytes of scratch memory each lane may use.
    pub scratch_bytes_per_lane: u32,
    /// The process's trap handler.
    pub trap: Option<TrapHandler>,
    /// Position of the queue's doorbell in its process's slice.
    pub doorbell: u32,
    /// True if a workgroup's waves sit on both compute units of a work group processor instead of one.
    pub wgp_mode: bool,
    /// The compute units that its waves may use.
    pub cus: CuMask,
    /// Rule by which workgroups are dealt to graphics cores; `None` on a chip with one core.
    pub shares: Option<XccShares>,
    /// The hardware queue and the VMID: bits of `HW_ID1` and `HW_ID2`.
    pub queue_ids: [u32; 2],
    /// Position of its packet in the ring, in packets.
    pub packet: u32,
    /// True if its first workgroup stays at its first instruction until the queue is taken off; only an injected fault
    /// sets it.
    #[serde(skip)]
    pub hangs: bool,
}

impl Launch {
    /// Returns the number of workgroups in each dimension, from [`Launch::start`] on; the last ones may be partial.
    #[must_use]
    pub fn workgroups(&self) -> [u32; 3] {
        core::array::from_fn(|dim| self.end(dim).saturating_sub(self.start[dim]))
    }

    /// Returns the identifier after the last workgroup's in a dimension.
    fn end(&self, dim: usize) -> u32 {
        self.grid[dim].div_ceil(self.workgroup[dim].max(1))
    }

    /// Returns true if a workgroup of this identifier runs.
    pub(super) fn has_workgroup(&self, id: [u32; 3]) -> bool {
        (0..3).all(|dim| (self.start[dim]..self.end(dim)).contains(&id[dim]))
    }

    /// Counts all workgroups; `None` if they are more than 64 bits can count.
    #[must_use]
    pub fn workgroup_count(&self) -> Option<u64> {
        self.workgroups().into_iter().try_fold(1u64, |product, count| product.checked_mul(u64::from(count)))
    }

    /// Counts the work-items of all workgroups, with a bound.
    #[must_use]
    pub(crate) fn invocations(&self) -> u64 {
        let size = |dim: usize| {
            let before = u64::from(self.start[dim]) * u64::from(self.workgroup[dim]);
            u64::from(self.grid[dim]).saturating_sub(before)
        };
        (0..3).fold(1u64, |product, dim| product.saturating_mul(size(dim)))
    }

    /// Returns the identifier of the `index`th workgroup, x fastest.
    #[must_use]
    pub fn workgroup_id(&self, index: u64) -> [u32; 3] {
        let [x, y, _] = self.workgroups().map(u64::from);
        let [first_x, first_y, first_z] = self.start;
        if index < x {
            // The usual case, without the divisions below: they take long.
            return [first_x + index as u32, first_y, first_z];
        }
        // Each quotient or remainder is below a 32-bit count, and each sum below the end of its dimension.
        [first_x + (index % x) as u32, first_y + (index / x % y) as u32, first_z + (index / x / y) as u32]
    }

    /// Returns the number of a workgroup's graphics core, if the chip has several. Its waves read this number wherever
    /// they are placed.
    #[inline(always)]
    fn core_id(&self, id: &[u32; 3]) -> Option<u32> {
        self.shares.map(|shares| self.core_of(shares, *id))
    }

    #[inline(never)]
    fn core_of(&self, shares: XccShares, id: [u32; 3]) -> u32 {
        let [x, y, _] = self.workgroups().map(u64::from);
        let [own_x, own_y, own_z] = id.map(u64::from);
        // Workgroups are counted by 64 bits.
        shares.core(own_x + x * (own_y + y * own_z)).into()
    }

    /// Returns the work-items of a workgroup, fewer than [`Launch::workgroup`] at the upper edges of the grid.
    #[must_use]
    pub fn extent(&self, id: [u32; 3]) -> [u32; 3] {
        core::array::from_fn(|dim| {
            let size = u64::from(self.workgroup[dim]);
            (u64::from(self.grid[dim]).saturating_sub(u64::from(id[dim]) * size)).min(size) as u32
        })
    }

    /// Returns the number of lanes of a wave.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        match self.wave_size {
            WaveSize::Wave32 => 32,
            WaveSize::Wave64 => 64,
        }
    }

    /// Gives its waves scratch memory of this pool.
    pub fn set_scratch(&mut self, pool: Arc<ScratchPool>) {
        let bytes = pool.wave_bytes() / u64::from(self.lanes());
        self.scratch_bytes_per_lane = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.scratch = Some(pool);
    }

    /// Returns the number of waves of a full workgroup.
    #[must_use]
    pub fn waves_per_workgroup(&self) -> u32 {
        self.workgroup.iter().product::<u32>().div_ceil(self.lanes())
    }

    /// Returns the most VGPRs that a wave can have of its own. There is room for them from the start, so that no wave
    /// waits for registers of another one.
    #[must_use]
    pub fn most_vgprs(&self) -> u16 {
        if self.allocates_vgprs { VGPR_BLOCK * MAX_VGPR_BLOCKS } else { self.vgpr_count }
    }

    /// Returns the rows of vector registers that a wave occupies. Blocks that are allocated one by one are not rounded
    /// up to the usual unit.
    fn vgpr_rows(&self, rules: &ShaderRules) -> u32 {
        match self.allocates_vgprs {
            true => (u32::from(self.most_vgprs()) * self.lanes()).div_ceil(rules.row_lanes),
            false => rules.allocated_vgprs(self.wave_size, self.vgpr_count, self.shared_vgprs),
        }
    }

    /// Returns the parts of the GPU that a workgroup occupies.
    pub(super) fn need(&self, rules: &ShaderRules) -> Need {
        Need {
            waves: self.waves_per_workgroup(),
            vgprs: self.vgpr_rows(rules),
            lds: self.lds_size,
            wgp_mode: self.wgp_mode,
            cus: self.cus,
        }
    }

    /// Returns true if an empty GPU can hold a workgroup.
    #[must_use]
    pub fn fits_at_all(&self, rules: &ShaderRules) -> bool {
        self.need(rules).fits_at_all(rules)
    }

    /// Returns EXEC and packed work-item IDs of each wave of a workgroup of this extent.
    pub(super) fn lane_ids(&self, extent: [u32; 3]) -> Vec<(u64, [u32; 64])> {
        let total: u32 = extent.iter().product();
        let lanes = self.lanes();
        // Work-item IDs of the next lane.
        let [mut x, mut y, mut z] = [0u32; 3];
        (0..total.div_ceil(lanes))
            .map(|wave| {
                let count = (total - wave * lanes).min(lanes) as usize;
                let mut v0 = [0; 64];
                let mut rest = &mut v0[..count];
                // Lanes side by side differ in the first dimension alone, up to its end.
                while !rest.is_empty() {
                    let (row, behind) = rest.split_at_mut(rest.len().min((extent[0] - x) as usize));
                    let others = match self.workitem_id_dims {
                        0 => 0,
                        1 => y << 10,
                        _ => y << 10 | z << 20,
                    };
                    for (value, x) in row.iter_mut().zip(x..) {
                        *value = x | others;
                    }
                    x += row.len() as u32;
                    if x == extent[0] {
                        (x, y) = (0, y + 1);
                    }
                    if y == extent[1] {
                        (y, z) = (0, z + 1);
                    }
                    rest = behind;
                }
                (u64::MAX >> (64 - count), v0)
            })
            .collect()
    }

    /// Starts wave `wave` of `waves` of a workgroup, in the storage at index `wave`, or in a new one at the end.
    #[inline(always)]
    pub(super) fn start_wave(
        &self,
        storage: &mut Vec<Wave>,
        id: [u32; 3],
        (wave, waves): (u32, u32),
        (exec, v0): &(u64, [u32; 64]),
        seat: WaveSeat,
    ) {
        let mut sgprs = [0u32; MAX_INITIAL_SGPRS];
        let users = self.users().len();
        sgprs[..users].copy_from_slice(self.users());
        let (own, count) = self.own_sgprs(seat.chip, id, (wave, waves));
        sgprs[users..users + OWN_SGPRS].copy_from_slice(&own);
        let init = WaveInit {
            exec: *exec,
            sgprs: &sgprs[..users + count],
            vgprs: core::slice::from_ref(v0),
            scratch_base: self.scratch_base(&seat),
            hw_id1: self.queue_ids[0] | seat.hw_ids[0],
            hw_id2: self.queue_ids[1] | self.core_id(&id).unwrap_or(seat.hw_ids[1]),
            ..self.common(waves, &seat)
        };
        match storage.get_mut(wave as usize) {
            Some(wave) => wave.restart(&init),
            None => storage.push(Wave::new(&init)),
        }
        if self.has_ttmps(seat.chip)
            && let Some(state) = storage.get_mut(wave as usize)
        {
            let [x, y, z] = id;
            (seat.chip.shader.set_ttmps)(state, x, (y, z), (wave, self.packet), self.scratch.is_some());
        }
    }

    /// Returns the initial state that all waves of all workgroups have in common.
    fn common(&self, waves: u32, seat: &WaveSeat) -> WaveInit<'_> {
        WaveInit {
            arch: seat.chip.arch,
            pc: self.entry,
            wave_size: self.wave_size,
            sgprs: self.users(),
            vgpr_count: self.vgpr_count,
            allocates_vgprs: self.allocates_vgprs,
            shared_vgprs: self.shared_vgprs,
            accum_offset: self.accum_offset,
            mode: self.mode,
            scratch_size_per_lane: if seat.scratch_slot.is_some() { self.scratch_bytes_per_lane } else { 0 },
            trap: self.trap,
            doorbell: self.doorbell,
            in_workgroup: waves > 1,
            ..WaveInit::default()
        }
    }

    /// Returns the user SGPRs; at most as many as leave room for the SGPRs after them.
    fn users(&self) -> &[u32] {
        &self.user_sgprs[..self.user_sgprs.len().min(MAX_INITIAL_SGPRS - OWN_SGPRS)]
    }

    /// Returns the number of SGPRs that waves begin with.
    pub(super) fn initial_sgprs(&self) -> usize {
        let own = self.workgroup_id_sgprs.into_iter().chain([self.workgroup_info_sgpr]);
        self.users().len() + own.filter(|is_there| *is_there).count()
    }

    /// Returns the SGPRs after the user SGPRs, and their number: the workgroup's identifier and the workgroup
    /// information.
    #[inline(always)]
    fn own_sgprs(
        &self,
        chip: &Generation,
        id: [u32; 3],
        (wave, waves): (u32, u32),
    ) -> ([u32; OWN_SGPRS], usize) {
        let mut sgprs = [0; OWN_SGPRS];
        let mut count = 0;
        for (id, enabled) in id.into_iter().zip(self.workgroup_id_sgprs) {
            if enabled {
                sgprs[count] = id;
                count += 1;
            }
        }
        if self.workgroup_info_sgpr {
            sgprs[count] = (chip.shader.workgroup_info)(wave, waves);
            count += 1;
        }
        (sgprs, count)
    }

    fn scratch_base(&self, seat: &WaveSeat) -> u64 {
        match (&self.scratch, seat.scratch_slot) {
            (Some(pool), Some(slot)) => pool.address(slot),
            _ => 0,
        }
    }

    /// Returns true if the trap temporaries of waves have initial values.
    #[inline(always)]
    fn has_ttmps(&self, chip: &Generation) -> bool {
        self.trap.is_some() || !chip.kernel.workgroup_id_sgprs
    }
}
