//! Waves of a launch that compiled code starts itself, each after the one that has ended, in its storage.

#![expect(unsafe_code, reason = "compiled code reads what waves start with by addresses")]

use core::mem::MaybeUninit;
use core::ptr;

use crate::registers::slot;
use crate::wave::Wave;
use crate::wave::touched::{LINE, Touched};

/// Start state of a wave that differs from wave to wave of a workgroup.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Follower {
    /// `v0`; a wave32 uses the first 32 lanes.
    pub v0: [u32; 64],
    /// Lanes that exist.
    pub exec: u64,
    /// `HW_ID1` and `HW_ID2`.
    pub hw_ids: [u32; 2],
    /// Value of the trap temporary that [`Following::wave_ttmp`] names.
    pub ttmp: u32,
    /// Number of halves, from the first one on, in which all lanes exist and `v0` counts up by one from lane to lane.
    pub(crate) counted: u32,
}

impl Follower {
    /// A wave with lanes that exist and their `v0`.
    #[must_use]
    pub fn new((exec, v0): (u64, [u32; 64]), hw_ids: [u32; 2], ttmp: u32) -> Follower {
        let numbers =
            (0..).zip(&v0).take_while(|&(lane, number)| v0[0].wrapping_add(lane) == *number).count();
        let lanes = numbers.min(exec.trailing_ones() as usize);
        Follower { v0, exec, hw_ids, ttmp, counted: lanes as u32 / 32 }
    }
}

/// Waves that may be started after one of a workgroup: the others of that workgroup, and the waves of the workgroups
/// that follow in X. They start as that wave has, except for the state named here.
#[derive(Debug, Default)]
pub struct Following<'a> {
    /// The waves of each workgroup.
    pub followers: &'a [Follower],
    /// Index of the follower that has been started, and the X of its workgroup.
    pub number: usize,
    /// See `number`.
    pub x: u32,
    /// One past the last X.
    pub end: u32,
    /// The scalar register that X is in, by its number.
    pub x_sgpr: Option<usize>,
    /// The trap temporary that X is in.
    pub x_ttmp: Option<u8>,
    /// The trap temporary that differs from wave to wave of a workgroup.
    pub wave_ttmp: Option<u8>,
    /// Budget that is left of the turn, without the instructions of that wave.
    pub budget: u64,
    /// Budget that has to be left after a wave for another one to be started.
    pub floor: u64,
    /// Budget that has to be left for a wave of another workgroup to be started.
    pub workgroup_floor: u64,
    /// Cost of a wave besides its instructions, and of a workgroup besides its waves, in units of the budget.
    pub wave_cost: u64,
    /// See `wave_cost`.
    pub workgroup_cost: u64,
    /// The most instructions of a wave's turn.
    pub quantum: u64,
}

/// Progress of compiled code that starts waves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The wave that was started last, and the X of its workgroup.
    pub number: usize,
    /// See `number`.
    pub x: u32,
    /// Budget that is left, without the instructions of that wave.
    pub budget: u64,
    /// Instructions of the waves before that one, from the first one of [`Following`] on.
    pub instructions: u64,
}

/// A stretch of memory that an access of the code has found in the TLB.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Stretch {
    /// GPU virtual address.
    pub(crate) start: u64,
    /// Number of addresses from there on at which the access fits.
    pub(crate) places: u64,
    /// Host address minus GPU virtual address.
    pub(crate) delta: u64,
}

impl Stretch {
    /// No access fits anywhere.
    const NONE: Stretch = Stretch { start: 0, places: 0, delta: 0 };
}

/// State of [`Following`] and [`Followed`] as compiled code reads and writes it.
#[repr(C, align(64))]
pub(crate) struct Succession {
    /// Lines of scalar registers that code may change, as waves start with them: those that [`Touched`] names.
    pub(crate) lines: [MaybeUninit<[u32; LINE]>; Succession::LINES],
    /// The wave that was started last; the first one of a workgroup, and one past the last.
    pub(crate) at: *const Follower,
    pub(crate) first: *const Follower,
    pub(crate) last: *const Follower,
    pub(crate) budget: i64,
    pub(crate) floor: i64,
    pub(crate) workgroup_floor: i64,
    pub(crate) wave_cost: i64,
    pub(crate) workgroup_cost: i64,
    pub(crate) quantum: u64,
    /// The number of instructions at which the wave that was started last is to stop.
    pub(crate) limit: u64,
    pub(crate) instructions: u64,
    /// Address in the code at which waves begin.
    pub(crate) entry: *const u8,
    /// Offsets from the wave, in bytes: of X, in two places, and of the trap temporary that differs from wave to
    /// wave.
    pub(crate) x_at: [u32; 2],
    pub(crate) ttmp_at: u32,
    pub(crate) x: u32,
    pub(crate) end: u32,
    /// Value of `Wave::lds_order` that waves start with.
    pub(crate) lds_order: u32,
    /// Stretches of memory that the accesses of the code at hand have found.
    pub(crate) stretches: [Stretch; Succession::STRETCHES],
}

impl Succession {
    /// Lines of scalar registers.
    const LINES: usize = 256 / LINE;

    /// Accesses that have a stretch.
    pub(crate) const STRETCHES: usize = 8;

    /// With nothing in it.
    pub(crate) const NONE: Succession = Succession {
        lines: [MaybeUninit::uninit(); Succession::LINES],
        at: ptr::null(),
        first: ptr::null(),
        last: ptr::null(),
        budget: 0,
        floor: 0,
        workgroup_floor: 0,
        wave_cost: 0,
        workgroup_cost: 0,
        quantum: 0,
        limit: 0,
        instructions: 0,
        entry: ptr::null(),
        x_at: [0; 2],
        ttmp_at: 0,
        x: 0,
        end: 0,
        lds_order: 0,
        stretches: [Stretch::NONE; Succession::STRETCHES],
    };

    /// Forgets the stretches: other code is at hand, or the TLB has changed.
    pub(crate) fn forget_stretches(&mut self) {
        self.stretches = [Stretch::NONE; Succession::STRETCHES];
    }

    /// Lets waves follow one that has just been started. They begin at an address of its region's code, which changes
    /// registers as `touched` says. Returns `false` if there are none, or if code cannot start them.
    pub(crate) fn begin(
        &mut self,
        following: &Following<'_>,
        wave: &Wave,
        (touched, entry): (&Touched, *const u8),
        limit: u64,
    ) -> bool {
        let range = following.followers.as_ptr_range();
        let Some(at) = following.followers.get(following.number) else { return false };
        // Its `v0` is set at each start.
        if wave.vgpr_count == 0 {
            return false;
        }
        for (line, kept) in self.lines.iter_mut().enumerate() {
            if touched.lines >> line & 1 != 0
                && let Some(from) = wave.s[line * LINE..].first_chunk()
            {
                kept.write(*from);
            }
        }
        (self.at, self.first, self.last) = (at, range.start, range.end);
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        (self.budget, self.floor) = (signed(following.budget), signed(following.floor));
        self.workgroup_floor = signed(following.workgroup_floor);
        (self.wave_cost, self.workgroup_cost) =
            (signed(following.wave_cost), signed(following.workgroup_cost));
        (self.quantum, self.limit, self.instructions) = (following.quantum, limit, 0);
        self.entry = entry;
        let general = following.x_sgpr.filter(|&register| register < usize::from(wave.file.sgprs));
        let place = |register: Option<usize>| register.unwrap_or(slot::DUMP) as u32 * size_of::<u32>() as u32;
        let ttmp = |number: Option<u8>| place(number.map(|number| slot::TTMP0 + usize::from(number & 15)));
        (self.x_at, self.ttmp_at) = ([place(general), ttmp(following.x_ttmp)], ttmp(following.wave_ttmp));
        (self.x, self.end) = (following.x, following.end);
        self.lds_order = wave.lds_order.into();
        true
    }

    /// Returns the progress of the code; `wave` is the wave that it has started last.
    pub(crate) fn followed(&self, wave: &mut Wave) -> Followed {
        // A launch whose waves have no register for X has it stored here; no instruction reads this slot.
        wave.s[slot::DUMP] = 0;
        // SAFETY: code moves it from follower to follower of one slice.
        let number = unsafe { self.at.offset_from_unsigned(self.first) };
        Followed { number, x: self.x, budget: self.budget.cast_unsigned(), instructions: self.instructions }
    }
}
