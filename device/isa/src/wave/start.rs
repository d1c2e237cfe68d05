//! Waves of a grid, which start alike except for each one's own state.

use core::ops::Range;

use super::vgprs::clear;
use super::{Wave, WaveInit};
use crate::registers::slot;
use crate::wave::barriers::BARRIERS;
use crate::wave::partly_done::PartlyDone;
use crate::wave::touched::{LINE, Touched};

/// Start state that the waves of a grid share: worked out once, and copied into each of them.
#[derive(Clone, Debug)]
pub struct Start {
    wave: Wave,
    /// Scalar registers that are included. The caller sets some of them after each start.
    included: Range<usize>,
}

/// Start state of a wave of a grid that the others do not share, except `v0`.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Lanes that exist.
    pub exec: u64,
    /// First of the scalar registers that differ, and their values.
    pub sgprs: (usize, [u32; OWN_SGPRS]),
    /// `HW_ID1` and `HW_ID2`.
    pub hw_ids: [u32; 2],
    /// `FLAT_SCRATCH`.
    pub scratch_base: u64,
}

/// Scalar registers of a wave's own; unused ones are zero, as they are in the state that all waves start with.
pub const OWN_SGPRS: usize = 4;

impl Default for Start {
    fn default() -> Self {
        Start { wave: Wave::new(&WaveInit { vgpr_count: 0, ..WaveInit::default() }), included: 0..0 }
    }
}

impl Start {
    /// Sets the state that waves start with from now on, except their own; [`WaveInit::vgprs`] is for [`Own`] alone.
    pub fn set(&mut self, init: &WaveInit<'_>) {
        // Its vector registers are never anything but zero.
        self.wave.s = [0; 256];
        self.wave.launch(&WaveInit { vgprs: &[], ..*init });
        self.included = 0..0;
    }

    /// Includes this in the state that all waves start with, for grids whose workgroups have one wave each. No wave
    /// then has state of its own. A scalar register of these that the caller sets after a wave has started has to be
    /// set after each start.
    pub fn include(&mut self, own: &Own) {
        self.wave.set_own(own);
        self.included = own.sgprs.0..own.sgprs.0 + OWN_SGPRS;
    }

    /// The wave that others are copies of.
    pub fn wave(&self) -> &Wave {
        &self.wave
    }
}

impl Wave {
    /// Starts a new wave in this one's storage, as [`Wave::restart`] does with the same values; `own` may be
    /// [included](Start::include). `v0` has 64 lanes, of which a wave32 uses the first 32.
    pub fn start_as(&mut self, start: &Start, own: Option<&Own>, v0: &[u32; 64]) {
        let used = (u32::from(self.registers) * self.halves) as usize;
        clear(&mut self.v.0[..used.min(super::ROWS)]);
        // Between these there are no registers.
        self.s[..REGISTERS].copy_from_slice(&start.wave.s[..REGISTERS]);
        self.s[VALUES..].copy_from_slice(&start.wave.s[VALUES..]);
        self.take_over(&start.wave);
        self.set_own_or_included(start, own);
        self.set_first_row(v0);
    }

    /// As [`Wave::start_as`], if the wave in this storage was started as `start` says, has ended, and has changed
    /// nothing besides `touched`. If waves have no state of their own, it was started with the same `v0`.
    #[inline(always)]
    pub fn start_behind(&mut self, start: &Start, own: Option<&Own>, v0: &[u32; 64], touched: &Touched) {
        for &(first, end) in &touched.rows {
            if let Some(rows) = self.v.0.get_mut(first as usize..end as usize) {
                clear(rows);
            }
        }
        let mut lines = touched.lines;
        while lines != 0 {
            let first = lines.trailing_zeros() as usize % 16 * LINE;
            self.s[first..first + LINE].copy_from_slice(&start.wave.s[first..first + LINE]);
            lines &= lines - 1;
        }
        self.watched = start.wave.watched;
        self.pc = start.wave.pc;
        (self.instructions, self.raised, self.trapsts, self.done, self.lds_order) = (0, 0, 0, 0, 0);
        self.looked = false;
        self.set_own_or_included(start, own);
        if own.is_some() || touched.rows.first().is_some_and(|&(first, _)| first < self.halves) {
            self.set_first_row(v0);
        }
        #[cfg(debug_assertions)]
        self.assert_started(start, own, v0);
    }

    /// Checks that the wave is as [`Wave::start_as`] leaves it, except for the values that the launch sets
    /// afterwards.
    #[cfg(debug_assertions)]
    fn assert_started(&self, start: &Start, own: Option<&Own>, v0: &[u32; 64]) {
        let mut other = self.clone();
        other.start_as(start, own, v0);
        let used = (u32::from(self.registers) * self.halves) as usize;
        let rows = |wave: &Wave, row: usize| wave.v.row(row as u32).map(|chunk| chunk.0);
        assert!((0..used).all(|row| rows(self, row) == rows(&other, row)), "vector registers");
        let kept = [slot::TTMP0..slot::TTMP0 + 16, start.included.clone()];
        let is_kept = |place: &usize| kept.iter().any(|kept| kept.contains(place));
        let scalars = (0..REGISTERS).chain(VALUES..256).filter(|place| !is_kept(place));
        for place in scalars {
            assert_eq!(self.s[place], other.s[place], "scalar register {place}");
        }
        other.s = self.s;
        assert_eq!(self.save(), other.save());
    }

    /// Sets the wave's own state, or the included one instead, except for scalar registers.
    #[inline(always)]
    fn set_own_or_included(&mut self, start: &Start, own: Option<&Own>) {
        match own {
            Some(own) => self.set_own(own),
            None => (self.hw_id, self.scratch_base) = (start.wave.hw_id, start.wave.scratch_base),
        }
    }

    #[inline(always)]
    fn set_own(&mut self, own: &Own) {
        self.hw_id = own.hw_ids;
        self.scratch_base = own.scratch_base;
        if self.file.flat_scratch.is_some() {
            self.set_pair(slot::FLAT_SCRATCH, own.scratch_base);
        }
        let (first, values) = own.sgprs;
        // As a whole, as they have been put together long before: a copy of a number that is not known is a call.
        if let Some(registers) = self.s[..usize::from(self.file.sgprs)].get_mut(first..) {
            match registers.first_chunk_mut() {
                Some(registers) => *registers = values,
                None => registers.iter_mut().zip(values).for_each(|(register, value)| *register = value),
            }
        }
        self.set_pair(slot::EXEC, if self.halves == 1 { own.exec & 0xffff_ffff } else { own.exec });
    }

    /// Sets the rows of `v0`, if the wave has vector registers.
    #[inline(always)]
    fn set_first_row(&mut self, v0: &[u32; 64]) {
        let rows = if self.vgpr_count > 0 { self.halves as usize } else { 0 };
        let chunks = self.v.0[..rows.min(2)].as_flattened_mut().iter_mut();
        // One after the other: a row that is put together first goes through memory.
        chunks.zip(v0.as_chunks().0).for_each(|(chunk, lanes)| chunk.0 = *lanes);
    }

    /// Everything but registers.
    #[inline(always)]
    fn take_over(&mut self, from: &Wave) {
        // Named one by one, so that none is forgotten.
        let Wave {
            s: _,
            v: _,
            file,
            pc,
            instructions: _,
            halves,
            mode,
            raised: _,
            status,
            vgpr_count,
            registers,
            accumulators_from,
            vgpr_block,
            watched,
            stops_at_return: _,
            looked: _,
            stepped: _,
            trapsts: _,
            scratch_base: _,
            scratch_size,
            hw_id: _,
            doorbell,
            border_colors,
            saved_exec: _,
            writing: _,
            done: _,
            handler,
            partly_done: _,
            lds_order: _,
            stopped_at: _,
            barriers_taken: _,
            waits_at: _,
            context_slot: _,
        } = from;
        (self.file, self.pc, self.halves, self.mode, self.status) = (file, *pc, *halves, *mode, *status);
        (self.vgpr_count, self.registers, self.vgpr_block) = (*vgpr_count, *registers, *vgpr_block);
        (self.accumulators_from, self.watched) = (*accumulators_from, *watched);
        (self.scratch_size, self.doorbell, self.handler) = (*scratch_size, *doorbell, *handler);
        self.border_colors = *border_colors;
        // As `launch` leaves them.
        (self.instructions, self.raised, self.trapsts, self.done, self.lds_order) = (0, 0, 0, 0, 0);
        (self.stops_at_return, self.looked, self.stepped) = (false, false, false);
        self.partly_done = [PartlyDone::default(); 2];
        (self.barriers_taken, self.waits_at, self.context_slot) = ([0; BARRIERS], None, None);
    }
}

/// Places of scalar registers end here; see [`slot`].
const REGISTERS: usize = slot::EXEC + 2;
/// First place of the values that are read as scalar registers.
const VALUES: usize = slot::INV_TWO_PI;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::{Arch, WaveSize};
    use crate::wave::trap::TrapHandler;

    #[test]
    fn waves_start_as_they_do_one_by_one() {
        for (arch, wave_size) in [
            (Arch::Gfx1100, WaveSize::Wave32),
            (Arch::Gfx1100, WaveSize::Wave64),
            (Arch::Gfx1151, WaveSize::Wave32),
            (Arch::Gfx1201, WaveSize::Wave32),
            (Arch::Gfx942, WaveSize::Wave64),
            (Arch::Gfx950, WaveSize::Wave64),
        ] {
            let v0: [u32; 64] = core::array::from_fn(|lane| lane as u32 * 3 + 1);
            let common = WaveInit {
                arch,
                pc: 0x1230,
                wave_size,
                vgpr_count: 24,
                mode: 0x3f0,
                scratch_size_per_lane: 16,
                doorbell: 5,
                in_workgroup: true,
                trap: Some(TrapHandler::default()),
                ..WaveInit::default()
            };
            let sgprs = [1, 2, 3, 70, 80, 90];
            let one = WaveInit {
                exec: 0x7_ffff_0001,
                sgprs: &sgprs,
                vgprs: &[v0],
                scratch_base: 0x1234_5678_9abc,
                hw_id1: 11,
                hw_id2: 12,
                ..common
            };
            let mut start = Start::default();
            start.set(&WaveInit { sgprs: &[1, 2, 3, 0, 0, 9], ..common });
            let own = Own {
                exec: 0x7_ffff_0001,
                sgprs: (3, [70, 80, 90, 0]),
                hw_ids: [11, 12],
                scratch_base: 0x1234_5678_9abc,
            };
            let used = || {
                let mut wave =
                    Wave::new(&WaveInit { arch, wave_size, vgpr_count: 40, ..WaveInit::default() });
                (0..128).for_each(|register| wave.set_sgpr(register, 0xdead));
                (0..40).for_each(|register| wave.set_vgpr(register, 31, 0xbeef));
                wave.instructions = 99;
                wave.lds_order = 7;
                wave.waits_at = Some(1);
                wave.stopped_at = 8;
                wave.looked = true;
                wave
            };
            let mut expected = used();
            expected.restart(&one);
            let mut included = start.clone();
            included.include(&own);
            for (start, own) in [(&start, Some(&own)), (&included, None)] {
                let mut wave = used();
                wave.start_as(start, own, &v0);
                assert_eq!(wave.save(), expected.save(), "{arch:?} {wave_size:?}");
                assert_eq!(wave.s, expected.s, "{arch:?}");
                let rows = |wave: &Wave| wave.v.0.iter().map(|row| [row[0].0, row[1].0]).collect::<Vec<_>>();
                assert!(rows(&wave) == rows(&expected), "{arch:?} {wave_size:?}");
            }
        }
    }
}
