//! LDS and global accesses addressed by the lane's number, and exchanges beyond the ordinary atomics.

use super::di::{Di, Flow, Handler, Machine};
use super::ds::{lane64, set_lane64};
use crate::mem::Word;
use crate::wave::{Wave, number};

/// Runs `f` for each active lane; it returns the LDS address that is out of range.
fn each(
    w: &mut Wave,
    m: &mut Machine<'_>,
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32) -> Result<(), u32>,
) -> Flow {
    let mut exec = if w.halves == 1 { u64::from(w.s[number::EXEC]) } else { w.exec() };
    while exec != 0 {
        let lane = exec.trailing_zeros();
        exec &= exec - 1;
        if let Err(address) = f(w, m, lane) {
            return m.lds_fault(address, 1 << lane);
        }
    }
    Flow::NEXT
}

/// An address that is inside, or the fault.
fn checked(m: &Machine<'_>, base: u32, offset: u32, bytes: u32) -> Result<u32, u32> {
    let at = base.wrapping_add(offset);
    if m.lds.contains(at, bytes) { Ok(at) } else { Err(at) }
}

/// Address of a lane: `M0[15:0]`, the offset and four bytes for each lane before it.
fn by_thread(w: &Wave, m: &Machine<'_>, d: &Di, lane: u32) -> Result<u32, u32> {
    checked(m, w.s[number::M0] & 0xffff, d.imm + lane * 4, 4)
}

/// `ds_load_addtid_b32`.
fn load_addtid(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each(w, m, |w, m, lane| {
        let at = by_thread(w, m, d, lane)?;
        w.v.set_lane(d.dst + lane / 32, lane & 31, u32::from_le_bytes(m.lds.get(at)));
        Ok(())
    })
}

/// `ds_store_addtid_b32`.
fn store_addtid(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each(w, m, |w, m, lane| {
        let at = by_thread(w, m, d, lane)?;
        m.lds.put(at, w.v.lane(d.src[1].value + lane / 32, lane & 31).to_le_bytes());
        Ok(())
    })
}

/// `ds_condxchg32_rtn_b64`: each word is replaced when bit 31 of its new value is set, without that bit.
fn conditional(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each(w, m, |w, m, lane| {
        let base = w.v.lane(d.src[0].value + lane / 32, lane & 31);
        let at = checked(m, base, d.imm, 8)?;
        let (old, data) = (u64::from_le_bytes(m.lds.get(at)), lane64(w, d.src[1].value, lane));
        let word = |shift: u32| {
            let new = (data >> shift) as u32;
            if new >> 31 != 0 { new & 0x7fff_ffff } else { (old >> shift) as u32 }
        };
        m.lds.put(at, (u64::from(word(0)) | u64::from(word(32)) << 32).to_le_bytes());
        set_lane64(w, d.dst, lane, old);
        Ok(())
    })
}

/// `ds_storexchg_2addr_rtn_b32`: both exchanges, the second at the offset in `dst2`.
fn exchange32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each(w, m, |w, m, lane| {
        let (half, lane) = (lane / 32, lane & 31);
        let base = w.v.lane(d.src[0].value + half, lane);
        let (first, second) = (checked(m, base, d.imm, 4)?, checked(m, base, d.dst2, 4)?);
        let data = [w.v.lane(d.src[1].value + half, lane), w.v.lane(d.src[2].value + half, lane)];
        let old = u32::from_le_bytes(m.lds.get(first));
        m.lds.put(first, data[0].to_le_bytes());
        w.v.set_lane(d.dst + half, lane, old);
        let old = u32::from_le_bytes(m.lds.get(second));
        m.lds.put(second, data[1].to_le_bytes());
        let row = d.dst + w.halves + half;
        w.v.set_lane(row, lane, old);
        Ok(())
    })
}

/// `ds_storexchg_2addr_rtn_b64`.
fn exchange64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each(w, m, |w, m, lane| {
        let base = w.v.lane(d.src[0].value + lane / 32, lane & 31);
        let (first, second) = (checked(m, base, d.imm, 8)?, checked(m, base, d.dst2, 8)?);
        let data = [lane64(w, d.src[1].value, lane), lane64(w, d.src[2].value, lane)];
        let old = u64::from_le_bytes(m.lds.get(first));
        m.lds.put(first, data[0].to_le_bytes());
        set_lane64(w, d.dst, lane, old);
        let old = u64::from_le_bytes(m.lds.get(second));
        m.lds.put(second, data[1].to_le_bytes());
        set_lane64(w, d.dst + 2 * w.halves, lane, old);
        Ok(())
    })
}

/// How such an LDS operation is lowered.
pub(crate) struct ExchangeEntry {
    pub(crate) handler: Handler,
    /// Registers of the result and of each data operand.
    pub(crate) dst: u32,
    pub(crate) data: u32,
    /// Bytes an offset of a two-address operation counts, 0 for one address.
    pub(crate) unit: u32,
}

/// The lowering of an LDS mnemonic.
pub(crate) fn parse(mnemonic: &str) -> Option<ExchangeEntry> {
    let entry = |handler: Handler, dst: u32, data: u32, unit: u32| ExchangeEntry { handler, dst, data, unit };
    Some(match mnemonic {
        "ds_load_addtid_b32" => entry(load_addtid, 1, 0, 0),
        "ds_store_addtid_b32" => entry(store_addtid, 0, 1, 0),
        "ds_condxchg32_rtn_b64" => entry(conditional, 2, 2, 0),
        "ds_storexchg_2addr_rtn_b32" => entry(exchange32, 2, 1, 4),
        "ds_storexchg_2addr_stride64_rtn_b32" => entry(exchange32, 2, 1, 256),
        "ds_storexchg_2addr_rtn_b64" => entry(exchange64, 4, 2, 8),
        "ds_storexchg_2addr_stride64_rtn_b64" => entry(exchange64, 4, 2, 512),
        _ => return None,
    })
}

/// `global_load_addtid_b32` and, with `STORE`, `global_store_addtid_b32`: SADDR in `src[2]`, four bytes for each lane.
pub(crate) fn global_addtid<const STORE: bool>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let base = d.src[2].scalar64(w).wrapping_add_signed(i64::from(d.imm.cast_signed()));
    let mut exec = if w.halves == 1 { u64::from(w.s[number::EXEC]) } else { w.exec() };
    while exec != 0 {
        let lane = exec.trailing_zeros();
        exec &= exec - 1;
        let va = base.wrapping_add(u64::from(lane) * u32::SIZE);
        let (row, at) = (d.dst + lane / 32, lane & 31);
        let done = if STORE {
            m.global.store(va, w.v.lane(row, at))
        } else {
            m.global.load(va).map(|value| w.v.set_lane(row, at, value))
        };
        if let Err(fault) = done {
            return m.memory_fault(fault, 1 << lane);
        }
    }
    Flow::NEXT
}
