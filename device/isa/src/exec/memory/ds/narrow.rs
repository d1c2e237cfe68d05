//! Loads and stores of 8 and 16 bits.

use super::each_address;
use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Machine};
use crate::lanes::Lanes;
use crate::wave::Wave;

/// Extension of a load of 8 or 16 bits, and its place in the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Narrow {
    /// 1 or 2.
    pub(crate) bytes: u32,
    pub(crate) signed: bool,
    /// Writes 16 bits of the destination: the low or the high ones.
    pub(crate) half: Option<Half>,
}

/// Half of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Half {
    Low,
    High,
}

impl Narrow {
    /// A byte, zero-extended.
    pub(crate) const U8: Narrow = Narrow { bytes: 1, signed: false, half: None };
    /// A byte, sign-extended.
    pub(crate) const I8: Narrow = Narrow { bytes: 1, signed: true, half: None };
    /// Two bytes, zero-extended.
    pub(crate) const U16: Narrow = Narrow { bytes: 2, signed: false, half: None };
    /// Two bytes, sign-extended.
    pub(crate) const I16: Narrow = Narrow { bytes: 2, signed: true, half: None };

    /// As `self`, to or from the low half of a register.
    pub(crate) const fn low(self) -> Narrow {
        Narrow { half: Some(Half::Low), ..self }
    }

    /// As `self`, to or from the high half of a register.
    pub(crate) const fn high(self) -> Narrow {
        Narrow { half: Some(Half::High), ..self }
    }

    /// Packed for [`Di::aux`].
    pub(crate) fn pack(self) -> u8 {
        let half = match self.half {
            None => 0,
            Some(Half::Low) => 1,
            Some(Half::High) => 2,
        };
        self.bytes as u8 | u8::from(self.signed) << 2 | half << 3
    }

    /// The inverse of [`Narrow::pack`].
    #[inline(always)]
    pub(crate) fn unpack(aux: u8) -> Narrow {
        let half = match aux >> 3 & 3 {
            0 => None,
            1 => Some(Half::Low),
            _ => Some(Half::High),
        };
        Narrow { bytes: u32::from(aux & 3), signed: aux & 4 != 0, half }
    }

    /// The register after loading `value` over `old`.
    #[inline(always)]
    pub(crate) fn merge(self, old: u32, value: u16) -> u32 {
        self.merger().merge(old, value)
    }

    /// The same for many values.
    #[inline(always)]
    pub(crate) fn merger(self) -> Merger {
        let all = if self.bytes == 1 { 0xff } else { 0xffff };
        let (stays, shift) = match self.half {
            None => (0, 0),
            Some(Half::Low) => (0xffff_0000, 0),
            Some(Half::High) => (0xffff, 16),
        };
        Merger { all, sign: if self.signed { all / 2 + 1 } else { 0 }, stays, shift }
    }
}

/// Bits of a value, its sign, bits of a register that stay, and where the value goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merger {
    all: u32,
    sign: u32,
    stays: u32,
    shift: u32,
}

impl Merger {
    /// The register after loading `value` over `old`.
    #[inline(always)]
    pub(crate) fn merge(self, old: u32, value: u16) -> u32 {
        let wide = (u32::from(value) & self.all ^ self.sign).wrapping_sub(self.sign);
        old & self.stays | wide << self.shift & !self.stays
    }

    /// As [`Merger::merge`], of sixteen lanes.
    #[inline(always)]
    pub(crate) fn merge_lanes<L: Lanes>(self, old: L::V, values: L::V) -> L::V {
        let sign = L::splat(self.sign);
        let wide = L::sub(L::xor(L::and(values, L::splat(self.all)), sign), sign);
        let placed = L::and(L::shl(wide, L::splat(self.shift)), L::splat(!self.stays));
        L::or(L::and(old, L::splat(self.stays)), placed)
    }
}

pub(super) fn load_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.has_loaded_lds();
    let narrow = Narrow::unpack(d.aux);
    each_address(w, m, d, |w, m, lane, at| {
        let value = if !m.lds.contains(at, narrow.bytes) {
            0
        } else if narrow.bytes == 1 {
            u16::from(m.lds.get::<1>(at)[0])
        } else {
            u16::from_le_bytes(m.lds.get(at))
        };
        let row = d.dst + lane / 32;
        let new = narrow.merge(w.v.lane(row, lane & 31), value);
        w.v.set_lane(row, lane & 31, new);
    });
    Flow::NEXT
}

pub(super) fn store_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.lets_others_load() {
        return m.stop_before(Stop::Turn);
    }
    let narrow = Narrow::unpack(d.aux);
    each_address(w, m, d, |w, m, lane, at| {
        let word = w.v.lane(d.src[1].value + lane / 32, lane & 31);
        let value = if narrow.half == Some(Half::High) { word >> 16 } else { word };
        if !m.lds.contains(at, narrow.bytes) {
            return;
        }
        if narrow.bytes == 1 {
            m.lds.put(at, [value as u8]);
        } else {
            m.lds.put(at, (value as u16).to_le_bytes());
        }
    });
    Flow::NEXT
}
