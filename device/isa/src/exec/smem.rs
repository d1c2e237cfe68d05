//! Scalar memory loads.

use super::di::{Di, Flow, Handler, Machine};
use crate::wave::Wave;

/// `S_LOAD_*` of `N` dwords: SBASE pair in `src[0]`, SOFFSET in `src[1]`.
fn load<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    // The low two bits of each part count as 0.
    let offset = i64::from(d.imm.cast_signed() & !3) + i64::from(d.src[1].scalar(w) & !3);
    let va = (d.src[0].scalar64(w) & !3).wrapping_add_signed(offset);
    fetch::<N>(w, m, d, va)
}

fn fetch<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di, va: u64) -> Flow {
    match m.global.load_block::<N>(va) {
        Ok(Some(words)) => {
            for (n, word) in words.into_iter().enumerate() {
                w.s[(d.dst as usize + n) & 255] = word;
            }
            Flow::NEXT
        }
        Ok(None) => {
            // Across a page boundary: all or nothing.
            let mut words = [0; N];
            for (n, word) in words.iter_mut().enumerate() {
                match m.global.load::<u32>(va.wrapping_add(n as u64 * 4)) {
                    Ok(value) => *word = value,
                    Err(fault) => return m.memory_fault(fault, 0),
                }
            }
            for (n, word) in words.into_iter().enumerate() {
                w.s[(d.dst as usize + n) & 255] = word;
            }
            Flow::NEXT
        }
        Err(fault) => m.memory_fault(fault, 0),
    }
}

/// `S_BUFFER_LOAD_*`: a buffer descriptor in four registers from `src[0]`; dwords out of range read as 0.
fn buffer_load<const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let v = d.src[0].value as usize;
    let base = w.pair(v) & 0xffff_ffff_ffff;
    let stride = w.s[(v + 1) & 255] >> 16 & 0x3fff;
    let records = u64::from(w.s[(v + 2) & 255]);
    let size = if stride == 0 { records } else { records * u64::from(stride) };
    let offset = u64::from((d.imm & !3).wrapping_add(d.src[1].scalar(w) & !3));
    if offset + N as u64 * 4 <= size {
        return fetch::<N>(w, m, d, base.wrapping_add(offset));
    }
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        let at = offset + n as u64 * 4;
        if at + 4 <= size {
            match m.global.load::<u32>(base.wrapping_add(at)) {
                Ok(value) => *word = value,
                Err(fault) => return m.memory_fault(fault, 0),
            }
        }
    }
    for (n, word) in words.into_iter().enumerate() {
        w.s[(d.dst as usize + n) & 255] = word;
    }
    Flow::NEXT
}

/// Handler of a load of this many dwords, from the memory that an address or a buffer descriptor names.
pub(crate) fn handler(is_buffer: bool, dwords: u32) -> Option<Handler> {
    let handlers: [Handler; 2] = match dwords {
        1 => [load::<1>, buffer_load::<1>],
        2 => [load::<2>, buffer_load::<2>],
        4 => [load::<4>, buffer_load::<4>],
        8 => [load::<8>, buffer_load::<8>],
        16 => [load::<16>, buffer_load::<16>],
        _ => return None,
    };
    Some(handlers[usize::from(is_buffer)])
}
