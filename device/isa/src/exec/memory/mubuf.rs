//! MUBUF and MTBUF: loads, stores and atomics through a buffer descriptor.
//!
//! `dst` is the row of VDATA, `src[0]` of VADDR, `src[1]` the descriptor's first scalar register, `src[2]` SOFFSET,
//! `imm` the bits of [`buffer::field`](super::buffer::field), `dst2` the number of components or dwords.

mod operation;

use super::atomic::Function;
use super::buffer::{Buffer, field};
use super::buffer_format::BufferFormat;
use super::ds::narrow::{Half, Narrow};
use super::ds::pattern::{lane64, set_lane64};
use super::flat::lanes;
use crate::exec::di::{Di, Flow, Handler, Machine, flag};
use crate::exec::properties::{Effect, Moves};
use crate::lanes::words::highest_first;
use crate::mem::{Access, Fault, PAGE_SIZE};
use crate::registers::slot;
use crate::wave::Wave;
pub(crate) use operation::{Operation, Packing};

/// Why a lane failed.
type Done = Result<(), Fault>;

/// Parts of an access, each of which is inside the buffer or not: their number, and the bytes of each.
type Parts = (u32, u32);

/// Runs `f` for each active lane; the first failure stops the wave, and the report names every later lane whose access
/// would fail as well.
fn each(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (buffer, parts): (&Buffer, Parts),
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32) -> Done,
) -> Flow {
    let mut exec = active(w);
    while exec != 0 {
        let lane = exec.trailing_zeros();
        exec &= exec - 1;
        if let Err(fault) = f(w, m, lane) {
            w.did_lanes_below(lane);
            let mut lanes = 1 << lane;
            while exec != 0 {
                let later = exec.trailing_zeros();
                exec &= exec - 1;
                lanes |= u64::from(failure(w, m, d, (buffer, parts), &fault, later).is_some()) << later;
            }
            return m.memory_fault(fault, lanes);
        }
    }
    Flow::NEXT
}

/// Why a lane's access would fail as well, if it would.
#[cold]
fn failure(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (buffer, (count, bytes)): (&Buffer, Parts),
    fault: &Fault,
    lane: u32,
) -> Option<Fault> {
    let place = buffer.place(w, d, lane);
    (0..count).find_map(|n| {
        let va = buffer.address(place, u64::from(n * bytes), bytes.into())?;
        m.failure(va, bytes, fault.access)
    })
}

/// Words that each lane has loaded.
type Loaded = [[u32; 4]; 64];

/// Runs `f` for each active lane, the highest first, for what it loads; then `put` for each. A failure stops the wave before any register
/// has changed: no lane is done, and the report names every lane whose access would fail.
fn each_load(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (buffer, parts): (&Buffer, Parts),
    mut f: impl FnMut(&Wave, &mut Machine<'_>, u32) -> Result<[u32; 4], Fault>,
    mut put: impl FnMut(&mut Wave, u32, [u32; 4]),
) -> Flow {
    let mut loaded: Loaded = [[0; 4]; 64];
    let exec = active(w);
    for lane in highest_first(exec) {
        match f(w, m, lane) {
            Ok(words) => loaded[lane as usize & 63] = words,
            Err(fault) => {
                w.did_lanes_below(0);
                let mut failures = lanes(exec)
                    .filter_map(|lane| Some((lane, failure(w, m, d, (buffer, parts), &fault, lane)?)));
                let (first, first_fault) = failures.next().unwrap_or((lane, fault));
                let mask = failures.fold(1 << first, |mask, (lane, _)| mask | 1 << lane);
                return m.memory_fault(first_fault, mask);
            }
        }
    }
    for lane in lanes(exec) {
        put(w, lane, loaded[lane as usize & 63]);
    }
    Flow::NEXT
}

/// Active lanes.
pub(crate) fn active(w: &Wave) -> u64 {
    if w.halves == 1 { u64::from(w.s[slot::EXEC]) } else { w.exec() }
}

/// A lane of the `n`-th register of the data.
pub(crate) fn get(w: &Wave, d: &Di, n: u32, lane: u32) -> u32 {
    w.v.lane(d.dst + n * w.halves + lane / 32, lane & 31)
}

/// Sets a lane of the `n`-th register of the data.
pub(crate) fn set(w: &mut Wave, d: &Di, n: u32, lane: u32, value: u32) {
    let row = d.dst + n * w.halves + lane / 32;
    w.v.set_lane(row, lane & 31, value);
}

/// The residency status after the data: everything there is is resident.
pub(crate) fn set_status(w: &mut Wave, d: &Di, registers: u32, lane: u32) {
    if d.flags & flag::STATUS != 0 {
        set(w, d, registers, lane, 0);
    }
}

/// Dwords of a lane's element that are one access where they are side by side, by their numbers: one, or two.
fn units(dwords: u32) -> impl DoubleEndedIterator<Item = (usize, bool)> {
    (0..dwords as usize).step_by(2).map(move |n| (n, n + 1 < dwords as usize))
}

/// Returns the address of two dwords that are side by side; `None` if they are not.
fn are_together(places: &[Option<u64>; 4], first: usize) -> Option<u64> {
    let va = places[first]?;
    (places[first + 1]? == va.wrapping_add(4)).then_some(va)
}

/// Returns the addresses of the dwords of a lane's element; `None` for each dword outside the buffer.
fn places(w: &Wave, d: &Di, buffer: &Buffer, lane: u32) -> [Option<u64>; 4] {
    let place = buffer.place(w, d, lane);
    let at = |n: u32| if n < d.dst2 { buffer.address(place, u64::from(n) * 4, 4) } else { None };
    [at(0), at(1), at(2), at(3)]
}

fn load(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let buffer = Buffer::of(w, d);
    let of_lane = |w: &Wave, m: &mut Machine<'_>, lane: u32| {
        let places = places(w, d, &buffer, lane);
        let mut words = [0; 4];
        for (first, two) in units(d.dst2).rev() {
            if two && let Some(va) = are_together(&places, first) {
                [words[first], words[first + 1]] = m.global.load_words(va)?;
                continue;
            }
            for n in (first..first + 1 + usize::from(two)).rev() {
                if let Some(va) = places[n] {
                    words[n] = m.global.load(va)?;
                }
            }
        }
        Ok(words)
    };
    each_load(w, m, d, (&buffer, (d.dst2, 4)), of_lane, |w, lane, words| {
        for (n, word) in (0..d.dst2).zip(words) {
            set(w, d, n, lane, word);
        }
        set_status(w, d, d.dst2, lane);
    })
}

/// Makes sure that a lane's dwords can all be stored, unless they are in one page, where all can be or none.
fn together(m: &mut Machine<'_>, places: &[Option<u64>; 4]) -> Done {
    let mut pages = places.iter().flatten().flat_map(|va| [va / PAGE_SIZE, va.wrapping_add(3) / PAGE_SIZE]);
    let first = pages.next();
    if pages.all(|page| Some(page) == first) {
        return Ok(());
    }
    for va in places.iter().flatten() {
        for byte in [*va, va.wrapping_add(3)] {
            m.global.tlb.lookup(m.global.mmu, byte, Access::Write)?;
        }
    }
    Ok(())
}

fn store(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let buffer = Buffer::of(w, d);
    each(w, m, d, (&buffer, (d.dst2, 4)), |w, m, lane| {
        let places = places(w, d, &buffer, lane);
        together(m, &places)?;
        for (first, two) in units(d.dst2) {
            let word = |n: usize| get(w, d, n as u32, lane);
            if two && let Some(va) = are_together(&places, first) {
                m.global.store_words(va, [word(first), word(first + 1)])?;
                continue;
            }
            for (n, va) in places.iter().enumerate().skip(first).take(1 + usize::from(two)) {
                if let Some(va) = va {
                    m.global.store(*va, word(n))?;
                }
            }
        }
        Ok(())
    })
}

/// A value of 8 or 16 bits at a lane's place, 0 when that is outside.
fn narrow_value(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    buffer: &Buffer,
    bytes: u32,
    lane: u32,
) -> Result<u16, Fault> {
    match buffer.address(buffer.place(w, d, lane), 0, u64::from(bytes)) {
        None => Ok(0),
        Some(va) if bytes == 1 => m.global.load::<u8>(va).map(u16::from),
        Some(va) => m.global.load::<u16>(va),
    }
}

fn load_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (buffer, narrow) = (Buffer::of(w, d), Narrow::unpack(d.aux));
    let of_lane = |w: &Wave, m: &mut Machine<'_>, lane: u32| {
        let value = narrow_value(w, m, d, &buffer, narrow.bytes, lane)?;
        Ok([narrow.merge(get(w, d, 0, lane), value), 0, 0, 0])
    };
    each_load(w, m, d, (&buffer, (1, narrow.bytes)), of_lane, |w, lane, [value, ..]| {
        set(w, d, 0, lane, value);
        set_status(w, d, 1, lane);
    })
}

fn store_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (buffer, narrow) = (Buffer::of(w, d), Narrow::unpack(d.aux));
    each(w, m, d, (&buffer, (1, narrow.bytes)), |w, m, lane| {
        let Some(va) = buffer.address(buffer.place(w, d, lane), 0, u64::from(narrow.bytes)) else {
            return Ok(());
        };
        let word = get(w, d, 0, lane);
        let value = if narrow.half == Some(Half::High) { word >> 16 } else { word };
        if narrow.bytes == 1 { m.global.store(va, value as u8) } else { m.global.store(va, value as u16) }
    })
}

fn atomic32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (buffer, function) = (Buffer::of(w, d), Function::from_number(d.aux));
    each(w, m, d, (&buffer, (1, 4)), |w, m, lane| {
        let (data, other) = (get(w, d, 0, lane), get(w, d, 1, lane));
        let old = match buffer.address(buffer.place(w, d, lane), 0, 4) {
            Some(va) => m.global.update_u32(va, |old| function.apply32(old, data, other))?,
            None => 0,
        };
        if d.flags & flag::RETURN != 0 {
            set(w, d, 0, lane, old);
            set_status(w, d, d.dst2, lane);
        }
        Ok(())
    })
}

fn atomic64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (buffer, function) = (Buffer::of(w, d), Function::from_number(d.aux));
    each(w, m, d, (&buffer, (1, 8)), |w, m, lane| {
        let (data, other) = (lane64(w, d.dst, lane), lane64(w, d.dst + 2 * w.halves, lane));
        let old = match buffer.address(buffer.place(w, d, lane), 0, 8) {
            Some(va) => m.global.update_u64(va, |old| function.apply64(old, data, other))?,
            None => 0,
        };
        if d.flags & flag::RETURN != 0 {
            set_lane64(w, d.dst, lane, old);
            set_status(w, d, d.dst2, lane);
        }
        Ok(())
    })
}

/// Loads to LDS: a dword per lane from `M0[15:0]` plus the instruction's offset.
fn load_to_lds(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (buffer, narrow) = (Buffer::of(w, d), Narrow::unpack(d.aux));
    let base = (w.s[slot::M0] & 0xffff) + (d.imm & field::OFFSET);
    let bytes = match d.aux {
        layout::FORMAT => format_bytes(BufferFormat::of(buffer.format)),
        _ if narrow.bytes == 0 => 4,
        _ => narrow.bytes,
    };
    each(w, m, d, (&buffer, (1, bytes)), |w, m, lane| {
        let value = if d.aux == layout::FORMAT {
            let format = BufferFormat::of(buffer.format);
            load_element(w, m, d, &buffer, format, lane)?[0]
        } else if narrow.bytes == 0 {
            match buffer.address(buffer.place(w, d, lane), 0, 4) {
                Some(va) => m.global.load::<u32>(va)?,
                None => 0,
            }
        } else {
            narrow.merge(0, narrow_value(w, m, d, &buffer, narrow.bytes, lane)?)
        };
        let at = base + lane * 4;
        // As stores by DS instructions.
        if m.lds.contains(at, 4) {
            m.lds.put(at, value.to_le_bytes());
        }
        Ok(())
    })
}

/// Loads several dwords per lane to LDS, where those of a lane follow each other.
fn load_dwords_to_lds(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let buffer = Buffer::of(w, d);
    let base = (w.s[slot::M0] & 0xffff) + (d.imm & field::OFFSET);
    each(w, m, d, (&buffer, (d.dst2, 4)), |w, m, lane| {
        let place = buffer.place(w, d, lane);
        for n in 0..d.dst2 {
            let value = match buffer.address(place, u64::from(n) * 4, 4) {
                Some(va) => m.global.load::<u32>(va)?,
                None => 0,
            };
            let at = base + (lane * d.dst2 + n) * 4;
            if m.lds.contains(at, 4) {
                m.lds.put(at, value.to_le_bytes());
            }
        }
        Ok(())
    })
}

/// Layout of the components of a typed access in registers.
mod layout {
    /// The format is the instruction's (MTBUF): no component selects.
    pub(crate) const TYPED: u8 = 1;
    /// Sixteen bits each, two in a register.
    pub(crate) const D16: u8 = 2;
    /// Sixteen bits in the high half.
    pub(crate) const HIGH: u8 = 4;
    /// A store repeats the first component where the instruction has no register for one.
    pub(crate) const REPEATS: u8 = 8;
    /// To LDS, by the format of the descriptor.
    pub(crate) const FORMAT: u8 = 0x80;
}

/// Format of an access and where each register's component comes from.
fn format_of(d: &Di, buffer: &Buffer) -> (Option<BufferFormat>, [u32; 4]) {
    if d.aux & layout::TYPED != 0 {
        (BufferFormat::of(d.imm >> field::FORMAT & 127), [4, 5, 6, 7])
    } else {
        (BufferFormat::of(buffer.format), buffer.select)
    }
}

/// Bytes of an element; one whose format has no number is not accessed.
fn format_bytes(format: Option<BufferFormat>) -> u32 {
    format.map_or(1, |format| format.bytes() as u32)
}

/// The components of a lane's element, zeros when it is outside.
fn load_element(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    buffer: &Buffer,
    format: Option<BufferFormat>,
    lane: u32,
) -> Result<[u32; 4], Fault> {
    let Some(format) = format else { return Ok([0; 4]) };
    let Some(va) = buffer.address(buffer.place(w, d, lane), 0, format.bytes()) else { return Ok([0; 4]) };
    Ok(format.unpack(m.global.load_bits(va, format.bytes())?))
}

fn load_format(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let buffer = Buffer::of(w, d);
    let (format, select) = format_of(d, &buffer);
    let of_lane = |w: &Wave, m: &mut Machine<'_>, lane: u32| {
        let memory = load_element(w, m, d, &buffer, format, lane)?;
        Ok(select.map(|select| match select {
            1 => format.map_or(0, BufferFormat::one),
            4..=7 => memory[select as usize & 3],
            _ => 0,
        }))
    };
    each_load(w, m, d, (&buffer, (1, format_bytes(format))), of_lane, |w, lane, components| {
        let registers = put_components(w, d, lane, format, &components);
        set_status(w, d, registers, lane);
    })
}

/// Writes the components an instruction asks for; how many registers that took.
fn put_components(
    w: &mut Wave,
    d: &Di,
    lane: u32,
    format: Option<BufferFormat>,
    components: &[u32; 4],
) -> u32 {
    if d.aux & layout::D16 == 0 {
        for (n, value) in (0..d.dst2).zip(components) {
            set(w, d, n, lane, *value);
        }
        return d.dst2;
    }
    for (n, value) in (0..d.dst2).zip(components) {
        let value = u32::from(format.map_or(0, |format| format.narrow(*value)));
        let high = n & 1 != 0 || d.aux & layout::HIGH != 0;
        let old = get(w, d, n / 2, lane);
        let new = if high { old & 0xffff | value << 16 } else { old & 0xffff_0000 | value };
        set(w, d, n / 2, lane, new);
    }
    d.dst2.div_ceil(2)
}

/// Component `n` of the data that an instruction stores.
fn component(w: &Wave, d: &Di, format: BufferFormat, n: u32, lane: u32) -> u32 {
    if d.aux & layout::D16 == 0 {
        return get(w, d, n, lane);
    }
    let high = n & 1 != 0 || d.aux & layout::HIGH != 0;
    let word = get(w, d, n / 2, lane);
    format.widen((if high { word >> 16 } else { word }) as u16)
}

fn store_format(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let buffer = Buffer::of(w, d);
    let (format, select) = format_of(d, &buffer);
    each(w, m, d, (&buffer, (1, format_bytes(format))), |w, m, lane| {
        let Some(format) = format else { return Ok(()) };
        let Some(va) = buffer.address(buffer.place(w, d, lane), 0, format.bytes()) else { return Ok(()) };
        let mut memory = [0; 4];
        let there = if d.aux & layout::REPEATS == 0 { d.dst2 } else { 4 };
        for (n, select) in (0..there).zip(select) {
            if let 4..=7 = select {
                let n = if n < d.dst2 { n } else { 0 };
                memory[select as usize & 3] = component(w, d, format, n, lane);
            }
        }
        m.global.store_bits(va, format.bytes(), format.pack(memory))
    })
}

/// Handler and operands of a buffer operation, for lowering.
pub(crate) struct BufferEntry {
    pub(crate) handler: Handler,
    pub(crate) aux: u8,
    /// Components or dwords, for [`Di::dst2`].
    pub(crate) count: u32,
    /// Registers of VDATA.
    pub(crate) registers: u32,
}

/// Returns the entry of an operation with this effect; `None` if there is no such operation. `repeats` is true if
/// stores by a format repeat their first component.
pub(crate) fn entry(operation: Operation, effect: Effect, repeats: bool) -> Option<BufferEntry> {
    let entry = |handler: Handler, aux: u8, count: u32, registers: u32| {
        Some(BufferEntry { handler, aux, count, registers })
    };
    match (operation, effect) {
        (Operation::Moves(Moves::Dwords(count)), Effect::Load) => entry(load, 0, count, count),
        (Operation::Moves(Moves::Dwords(count)), Effect::Store) => entry(store, 0, count, count),
        (Operation::Moves(Moves::Part(part)), Effect::Load) => entry(load_narrow, part.pack(), 0, 1),
        (Operation::Moves(Moves::Part(part)), Effect::Store) => entry(store_narrow, part.pack(), 0, 1),
        (Operation::Moves(Moves::Atomic(function, bits)), Effect::Atomic) => {
            let handler: Handler = if bits == 64 { atomic64 } else { atomic32 };
            entry(handler, function as u8, bits / 32, bits / 32 * function.operands())
        }
        (Operation::Format { typed, components, packing }, Effect::Load | Effect::Store) => {
            let handler: Handler = if effect == Effect::Load { load_format } else { store_format };
            let typed = if typed { layout::TYPED } else { 0 } | if repeats { layout::REPEATS } else { 0 };
            match packing {
                Packing::Whole => entry(handler, typed, components, components),
                Packing::Halves => entry(handler, typed | layout::D16, components, components.div_ceil(2)),
                Packing::High => entry(handler, typed | layout::D16 | layout::HIGH, components, 1),
            }
        }
        (Operation::DwordsToLds(1), Effect::Load) => entry(load_to_lds, 0, 0, 0),
        (Operation::DwordsToLds(count), Effect::Load) => entry(load_dwords_to_lds, 0, count, 0),
        (Operation::PartToLds(part), Effect::Load) => entry(load_to_lds, part.pack(), 0, 0),
        (Operation::FormatToLds, Effect::Load) => entry(load_to_lds, layout::FORMAT, 0, 0),
        _ => None,
    }
}
