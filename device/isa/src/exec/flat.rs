//! FLAT, GLOBAL and SCRATCH instructions.
//!
//! `src[0]` is VADDR, `src[1]` VDATA, `src[2]` SADDR (a constant 0 when it is off), `imm` the signed byte offset, `aux`
//! what the handler needs, `dst2` the address form: see [`Form`].

#![expect(unsafe_code, reason = "calls a handler of the same backend as the one it is called from")]
#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::atomic::Function;
use super::di::{Di, Flow, Handler, Machine, flag};
use super::ds::{Half, Narrow, Pattern, Steps, lane64, pattern, set_lane64};
use super::op::{exec_half, per_backend, split};
use crate::lanes::{BackendKind, Lanes};
use crate::mem::{Access, FaultKind, MemoryFault, Segment, Word};
use crate::wave::Wave;

/// How an instruction's address is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    /// FLAT: a 64-bit VGPR pair; apertures apply.
    Flat,
    /// GLOBAL: a 64-bit VGPR pair.
    Global,
    /// GLOBAL with SADDR: a 64-bit SGPR pair plus a 32-bit VGPR, zero-extended.
    GlobalScalar,
    /// SCRATCH: an offset in the lane's private memory, from a VGPR, an SGPR, both or neither.
    Scratch,
}

impl Form {
    /// The form an element's `dst2` holds.
    #[inline(always)]
    fn of(d: &Di) -> Form {
        match d.dst2 {
            0 => Form::Flat,
            1 => Form::Global,
            2 => Form::GlobalScalar,
            _ => Form::Scratch,
        }
    }
}

/// Why an access failed.
enum Failure {
    Memory(MemoryFault),
    Lds(u32),
}

/// Stops the wave for a failure at one of `lanes`, an access of `bytes` by each lane.
///
/// The report names every lane from the first of `lanes` on whose access fails. Of the lanes before, those below `undone`
/// are done.
#[cold]
#[inline(never)]
fn fail(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (bytes, undone): (u32, u32),
    (failure, lanes): (Failure, u64),
) -> Flow {
    w.did_lanes_below(undone);
    let mut failing = 0;
    let mut first = None;
    for lane in active(w).filter(|lane| *lane >= lanes.trailing_zeros()) {
        let Some(cause) = probe(w, m, segment(w, m, d, lane), lane, bytes, &failure) else { continue };
        // One report is of one kind of memory.
        if core::mem::discriminant(&cause) == core::mem::discriminant(&failure) {
            failing |= 1 << lane;
            first = first.or(Some(cause));
        }
    }
    match first.unwrap_or(failure) {
        Failure::Memory(fault) => m.memory_fault(fault, if failing == 0 { lanes } else { failing }),
        Failure::Lds(address) => m.lds_fault(address, if failing == 0 { lanes } else { failing }),
    }
}

/// Why an access like the one of `failure` fails at `at`, if it does.
fn probe(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    bytes: u32,
    failure: &Failure,
) -> Option<Failure> {
    let access = match failure {
        Failure::Memory(fault) => fault.access,
        Failure::Lds(_) => Access::Read,
    };
    let mut translated = |va: u64, bytes: u32| m.failure(va, bytes, access).map(Failure::Memory);
    match at {
        Segment::Global(va) => translated(va, bytes),
        Segment::Shared(address) => (!m.lds.contains(address, bytes)).then_some(Failure::Lds(address)),
        Segment::Private(offset) => match check_scratch(w, offset, bytes, access) {
            Err(failure) => Some(failure),
            Ok(()) => translated(scratch_address(w, lane, offset), bytes.min(4)),
        },
    }
}

/// One lane's address.
#[inline(always)]
fn segment(w: &Wave, m: &Machine<'_>, d: &Di, lane: u32) -> Segment {
    let (half, at) = (lane / 32, lane & 31);
    let offset = i64::from(d.imm.cast_signed());
    match Form::of(d) {
        Form::Flat => m.apertures.segment(lane64(w, d.src[0].value, lane).wrapping_add_signed(offset)),
        Form::Global => Segment::Global(lane64(w, d.src[0].value, lane).wrapping_add_signed(offset)),
        Form::GlobalScalar => {
            let base = d.src[2].scalar64(w);
            let index = u64::from(w.v.lane(d.src[0].value + half, at));
            Segment::Global(base.wrapping_add(index).wrapping_add_signed(offset))
        }
        Form::Scratch => {
            let vector = d.src[0].lane(w, lane);
            let sum = vector.wrapping_add(d.src[2].scalar(w)).wrapping_add(d.imm);
            Segment::Private(sum)
        }
    }
}

/// GPU virtual address of a byte of a lane's private memory: dwords of all lanes side by side.
#[inline(always)]
fn scratch_address(w: &Wave, lane: u32, offset: u32) -> u64 {
    let dword = u64::from(offset & !3) * u64::from(w.halves * 32);
    w.scratch_base.wrapping_add(dword + u64::from(lane * 4) + u64::from(offset & 3))
}

fn check_scratch(w: &Wave, offset: u32, bytes: u32, access: Access) -> Result<(), Failure> {
    if u64::from(offset) + u64::from(bytes) <= u64::from(w.scratch_size) {
        return Ok(());
    }
    let va = w.scratch_base.wrapping_add(u64::from(offset) * u64::from(w.halves * 32));
    Err(Failure::Memory(MemoryFault { va, access, kind: FaultKind::Aperture, lanes: 0 }))
}

/// Loads one value of at most 32 bits for a lane.
#[inline(always)]
fn load_lane<T: Word>(w: &Wave, m: &mut Machine<'_>, at: Segment, lane: u32) -> Result<T, Failure> {
    let bytes = T::SIZE as u32;
    match at {
        Segment::Global(va) => m.global.load(va).map_err(Failure::Memory),
        Segment::Shared(address) => {
            if !m.lds.contains(address, bytes) {
                return Err(Failure::Lds(address));
            }
            let word = u64::from_le_bytes(m.lds.get(address));
            Ok(T::from_u64(word))
        }
        Segment::Private(offset) => {
            check_scratch(w, offset, bytes, Access::Read)?;
            if offset % 4 + bytes <= 4 {
                return m.global.load(scratch_address(w, lane, offset)).map_err(Failure::Memory);
            }
            let mut bits = 0;
            for n in 0..bytes {
                let byte: u8 =
                    m.global.load(scratch_address(w, lane, offset + n)).map_err(Failure::Memory)?;
                bits |= u64::from(byte) << (n * 8);
            }
            Ok(T::from_u64(bits))
        }
    }
}

/// Stores one value of at most 32 bits for a lane.
#[inline(always)]
fn store_lane<T: Word>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    value: T,
) -> Result<(), Failure> {
    let bytes = T::SIZE as u32;
    match at {
        Segment::Global(va) => m.global.store(va, value).map_err(Failure::Memory),
        Segment::Shared(address) => {
            if !m.lds.contains(address, bytes) {
                return Err(Failure::Lds(address));
            }
            for n in 0..bytes {
                m.lds.put(address + n, [(value.to_u64() >> (n * 8)) as u8]);
            }
            Ok(())
        }
        Segment::Private(offset) => {
            check_scratch(w, offset, bytes, Access::Write)?;
            if offset % 4 + bytes <= 4 {
                return m.global.store(scratch_address(w, lane, offset), value).map_err(Failure::Memory);
            }
            reach(w, m, at, lane, bytes)?;
            for n in 0..bytes {
                let byte = (value.to_u64() >> (n * 8)) as u8;
                m.global.store(scratch_address(w, lane, offset + n), byte).map_err(Failure::Memory)?;
            }
            Ok(())
        }
    }
}

/// Makes sure that a lane's store of `bytes` bytes, which takes several accesses, can be done as a whole.
#[inline(always)]
fn reach(w: &Wave, m: &mut Machine<'_>, at: Segment, lane: u32, bytes: u32) -> Result<(), Failure> {
    match at {
        Segment::Global(va) => m.global.reaches(va, bytes.into()).map_err(Failure::Memory),
        Segment::Shared(address) if m.lds.contains(address, bytes) => Ok(()),
        Segment::Shared(address) => Err(Failure::Lds(address)),
        Segment::Private(offset) => {
            check_scratch(w, offset, bytes, Access::Write)?;
            let first = scratch_address(w, lane, offset);
            let last = scratch_address(w, lane, offset + bytes - 1);
            m.global.reaches(first, last.wrapping_sub(first).wrapping_add(1)).map_err(Failure::Memory)
        }
    }
}

/// The address `n` dwords on.
#[inline(always)]
fn advance(at: Segment, n: usize) -> Segment {
    match at {
        Segment::Global(va) => Segment::Global(va.wrapping_add(n as u64 * 4)),
        Segment::Shared(address) => Segment::Shared(address.wrapping_add(n as u32 * 4)),
        Segment::Private(offset) => Segment::Private(offset.wrapping_add(n as u32 * 4)),
    }
}

/// Where sixteen active lanes' elements of `bytes` bytes lie, when that is global memory in one piece.
enum Block {
    Contiguous(u64),
    Uniform(u64),
    /// Private memory at one offset: the lanes' dwords are side by side.
    Private(u64),
    None,
}

#[inline(always)]
fn block<L: Lanes, const N: usize>(w: &Wave, m: &Machine<'_>, d: &Di, half: u32, chunk: usize) -> Block {
    let bytes = N as u32 * 4;
    let form = Form::of(d);
    let offset = i64::from(d.imm.cast_signed());
    if form == Form::Scratch {
        let vector = match d.src[0].kind {
            super::di::Kind::Vector => {
                let row = &w.v.row(d.src[0].value + half)[chunk];
                if L::eq(L::load(row), L::splat(row.0[0])) != u16::MAX {
                    return Block::None;
                }
                row.0[0]
            }
            _ => d.src[0].scalar(w),
        };
        let sum = vector.wrapping_add(d.src[2].scalar(w)).wrapping_add(d.imm);
        if sum % 4 != 0 || u64::from(sum) + u64::from(bytes) > u64::from(w.scratch_size) {
            return Block::None;
        }
        return Block::Private(scratch_address(w, half * 32 + chunk as u32 * 16, sum));
    }
    let low = &w.v.row(d.src[0].value + half)[chunk];
    let first = low.0[0];
    // A run of elements must not wrap around the low 32 bits.
    let room = first <= u32::MAX - 16 * bytes;
    let base = if form == Form::GlobalScalar {
        d.src[2].scalar64(w).wrapping_add(u64::from(first)).wrapping_add_signed(offset)
    } else {
        let high = &w.v.row(d.src[0].value + half + w.halves)[chunk];
        if L::eq(L::load(high), L::splat(high.0[0])) != u16::MAX {
            return Block::None;
        }
        let va = (u64::from(first) | u64::from(high.0[0]) << 32).wrapping_add_signed(offset);
        if form == Form::Flat {
            let last = va.wrapping_add(u64::from(16 * bytes));
            if !matches!(
                (m.apertures.segment(va), m.apertures.segment(last)),
                (Segment::Global(_), Segment::Global(_))
            ) {
                return Block::None;
            }
        }
        va
    };
    match pattern::<L, N>(L::load(low), first) {
        Pattern::Contiguous(_) if room => Block::Contiguous(base),
        Pattern::Uniform(_) => Block::Uniform(base),
        _ => Block::None,
    }
}

/// Where 32 active lanes' dwords lie, when that is global memory in one piece.
#[inline(always)]
fn block32<L: Lanes>(w: &Wave, d: &Di, half: u32) -> Block {
    let form = Form::of(d);
    let low = w.v.row(d.src[0].value + half);
    let first = low[0].0[0];
    let base = match form {
        Form::GlobalScalar => d.src[2].scalar64(w).wrapping_add(u64::from(first)),
        Form::Global => {
            let high = w.v.row(d.src[0].value + half + w.halves);
            let word = high[0].0[0];
            let same = L::splat(word);
            if L::eq(L::load(&high[0]), same) & L::eq(L::load(&high[1]), same) != u16::MAX {
                return Block::None;
            }
            u64::from(first) | u64::from(word) << 32
        }
        // Apertures and private memory take the general way.
        Form::Flat | Form::Scratch => return Block::None,
    };
    let va = base.wrapping_add_signed(i64::from(d.imm.cast_signed()));
    let relative = [L::sub(L::load(&low[0]), L::splat(first)), L::sub(L::load(&low[1]), L::splat(first))];
    let steps = L::load(&Steps::<1>::CHUNK);
    let contiguous = L::eq(relative[0], steps) & L::eq(relative[1], L::add(steps, L::splat(64)));
    // A run must not wrap around the low 32 bits.
    if contiguous == u16::MAX && first <= u32::MAX - 128 {
        return Block::Contiguous(va);
    }
    let zero = L::splat(0);
    if L::eq(relative[0], zero) & L::eq(relative[1], zero) == u16::MAX {
        return Block::Uniform(va);
    }
    Block::None
}

#[inline(always)]
fn load<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            if mask == 0 {
                continue;
            }
            match load_chunk::<L, N>(w, m, d, half, chunk, mask) {
                Ok(rows) => {
                    for n in 0..N {
                        let row = rows[n];
                        let target = &mut w.v.row_mut(d.dst + n as u32 * w.halves + half)[chunk];
                        if mask == u16::MAX {
                            L::store(target, row);
                        } else {
                            L::store_mask(target, row, mask);
                        }
                    }
                }
                // What its other lanes loaded is in no register yet.
                Err(failure) => return fail(w, m, d, (N as u32 * 4, half * 32 + chunk as u32 * 16), failure),
            }
        }
    }
    Flow::NEXT
}

#[inline(always)]
fn load_chunk<L: Lanes, const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    half: u32,
    chunk: usize,
    mask: u16,
) -> Result<[L::V; N], (Failure, u64)> {
    let first_lane = half * 32 + chunk as u32 * 16;
    if mask == u16::MAX {
        let chunk_fault = |fault| (Failure::Memory(fault), u64::from(mask) << first_lane);
        let mut rows = [L::splat(0); N];
        match block::<L, N>(w, m, d, half, chunk) {
            Block::Contiguous(va) => {
                if load_run::<L, N>(m, va, &mut rows).map_err(chunk_fault)? {
                    return Ok(rows);
                }
            }
            Block::Uniform(va) => {
                if let Some(words) = m.global.load_block::<N>(va).map_err(chunk_fault)? {
                    for n in 0..N {
                        rows[n] = L::splat(words[n]);
                    }
                    return Ok(rows);
                }
            }
            Block::Private(va) => {
                let mut whole = true;
                for n in 0..N {
                    let at = va.wrapping_add(n as u64 * 4 * u64::from(w.halves * 32));
                    match m.global.load_block::<16>(at).map_err(chunk_fault)? {
                        Some(words) => rows[n] = L::from_array(words),
                        None => whole = false,
                    }
                }
                if whole {
                    return Ok(rows);
                }
            }
            Block::None => {}
        }
    }
    let mut values = [[0; 16]; N];
    load_lanes(w, m, d, first_lane, mask, &mut values)?;
    let mut rows = [L::splat(0); N];
    for n in 0..N {
        rows[n] = L::from_array(values[n]);
    }
    Ok(rows)
}

/// One lane after the other, whatever their addresses.
#[inline(never)]
fn load_lanes(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    first_lane: u32,
    mask: u16,
    values: &mut [[u32; 16]],
) -> Result<(), (Failure, u64)> {
    let mut left = mask;
    while left != 0 {
        let i = left.trailing_zeros();
        left &= left - 1;
        let lane = first_lane + i;
        let at = segment(w, m, d, lane);
        for (n, row) in values.iter_mut().enumerate() {
            row[i as usize & 15] =
                load_lane(w, m, advance(at, n), lane).map_err(|failure| (failure, 1 << lane))?;
        }
    }
    Ok(())
}

/// Loads sixteen elements of `N` dwords that lie one after the other; `false` when they are not in one page.
#[inline(always)]
fn load_run<L: Lanes, const N: usize>(
    m: &mut Machine<'_>,
    va: u64,
    rows: &mut [L::V; N],
) -> Result<bool, MemoryFault> {
    match N {
        1 => {
            let Some(words) = m.global.load_block::<16>(va)? else { return Ok(false) };
            rows[0] = L::from_array(words);
        }
        2 => {
            let Some(words) = m.global.load_block::<32>(va)? else { return Ok(false) };
            let pair = L::deinterleave2(&words);
            rows[0] = pair[0];
            rows[1] = pair[1];
        }
        4 => {
            let Some(words) = m.global.load_block::<64>(va)? else { return Ok(false) };
            let quad = L::deinterleave4(&words);
            rows[..4].copy_from_slice(&quad);
        }
        3 => {
            let Some(words) = m.global.load_block::<48>(va)? else { return Ok(false) };
            for n in 0..N {
                let mut row = [0; 16];
                for i in 0..16 {
                    row[i] = words[i * N + n];
                }
                rows[n] = L::from_array(row);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[inline(always)]
fn store<L: Lanes, const N: usize>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    for half in 0..w.halves {
        for (chunk, mask) in split(exec_half(w, half)).into_iter().enumerate() {
            if mask == 0 {
                continue;
            }
            if let Err(failure) = store_chunk::<L, N>(w, m, d, half, chunk, mask) {
                return fail(w, m, d, (N as u32 * 4, failure.1.trailing_zeros()), failure);
            }
        }
    }
    Flow::NEXT
}

#[inline(always)]
fn store_chunk<L: Lanes, const N: usize>(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    half: u32,
    chunk: usize,
    mask: u16,
) -> Result<(), (Failure, u64)> {
    let first_lane = half * 32 + chunk as u32 * 16;
    let row = |n: usize| &w.v.row(d.src[1].value + n as u32 * w.halves + half)[chunk];
    if mask == u16::MAX {
        let chunk_fault = |fault| (Failure::Memory(fault), u64::from(mask) << first_lane);
        match block::<L, N>(w, m, d, half, chunk) {
            Block::Contiguous(va) => {
                let stored = match N {
                    1 => m.global.store_block(va, &row(0).0),
                    2 => m.global.store_block(va, &L::interleave2([L::load(row(0)), L::load(row(1))])),
                    4 => m.global.store_block(
                        va,
                        &L::interleave4([L::load(row(0)), L::load(row(1)), L::load(row(2)), L::load(row(3))]),
                    ),
                    3 => {
                        let rows = [row(0), row(1), row(2)];
                        let words: [u32; 48] = core::array::from_fn(|i| rows[i % 3].0[i / 3]);
                        m.global.store_block(va, &words)
                    }
                    _ => Ok(false),
                };
                if stored.map_err(chunk_fault)? {
                    return Ok(());
                }
            }
            // Sixteen dwords that begin at a multiple of their size are in one page.
            Block::Private(va) if va.is_multiple_of(64) => {
                let stride = 4 * u64::from(w.halves * 32);
                m.global.reaches(va, (N as u64 - 1) * stride + 64).map_err(chunk_fault)?;
                for n in 0..N {
                    let at = va.wrapping_add(n as u64 * stride);
                    m.global.store_block(at, &row(n).0).map_err(chunk_fault)?;
                }
                return Ok(());
            }
            Block::Private(_) | Block::Uniform(_) | Block::None => {}
        }
    }
    store_lanes(w, m, d, first_lane, mask, N as u32)
}

/// One lane after the other, whatever their addresses.
#[inline(never)]
fn store_lanes(
    w: &Wave,
    m: &mut Machine<'_>,
    d: &Di,
    first_lane: u32,
    mask: u16,
    words: u32,
) -> Result<(), (Failure, u64)> {
    let mut left = mask;
    while left != 0 {
        let lane = first_lane + left.trailing_zeros();
        left &= left - 1;
        let at = segment(w, m, d, lane);
        if words > 1 {
            reach(w, m, at, lane, words * 4).map_err(|failure| (failure, 1 << lane))?;
        }
        for n in 0..words as usize {
            let value = w.v.lane(d.src[1].value + n as u32 * w.halves + lane / 32, lane & 31);
            store_lane(w, m, advance(at, n), lane, value).map_err(|failure| (failure, 1 << lane))?;
        }
    }
    Ok(())
}

per_backend! {
    load_n [const N: usize] [N] |w, m, d, L| load::<L, N>(w, m, d)
}
per_backend! {
    store_n [const N: usize] [N] |w, m, d, L| store::<L, N>(w, m, d)
}

/// A dword for each of 32 active lanes that lie together; everything else takes the general way.
#[inline(always)]
fn load_dword<L: Lanes>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.halves == 1 && exec_half(w, 0) == u32::MAX {
        let value = match block32::<L>(w, d, 0) {
            Block::Contiguous(va) => m.global.load_vectors::<L>(va),
            Block::Uniform(va) => match m.global.load_block::<1>(va) {
                Ok(Some([word])) => Some([L::splat(word); 2]),
                _ => None,
            },
            _ => None,
        };
        if let Some(value) = value {
            let row = w.v.row_mut(d.dst);
            L::store(&mut row[0], value[0]);
            L::store(&mut row[1], value[1]);
            return Flow::NEXT;
        }
    }
    // SAFETY: the same backend, which whoever called this one had.
    unsafe { load_n::<1>(L::KIND)(w, m, d) }
}

/// As [`load_dword`].
#[inline(always)]
fn store_dword<L: Lanes>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.halves == 1
        && exec_half(w, 0) == u32::MAX
        && let Block::Contiguous(va) = block32::<L>(w, d, 0)
    {
        let row = w.v.row(d.src[1].value);
        if m.global.store_vectors::<L>(va, [L::load(&row[0]), L::load(&row[1])]) {
            return Flow::NEXT;
        }
    }
    // SAFETY: as in `load_dword`.
    unsafe { store_n::<1>(L::KIND)(w, m, d) }
}

per_backend! {
    load_b32 [] [] |w, m, d, L| load_dword::<L>(w, m, d)
}
per_backend! {
    store_b32 [] [] |w, m, d, L| store_dword::<L>(w, m, d)
}

/// Lanes in EXEC, lowest first.
#[inline(always)]
fn active(w: &Wave) -> impl Iterator<Item = u32> + use<> {
    let mut exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    core::iter::from_fn(move || {
        (exec != 0).then(|| {
            let lane = exec.trailing_zeros();
            exec &= exec - 1;
            lane
        })
    })
}

fn load_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let narrow = Narrow::unpack(d.aux);
    for lane in active(w) {
        let at = segment(w, m, d, lane);
        let value = if narrow.bytes == 1 {
            load_lane::<u8>(w, m, at, lane).map(u16::from)
        } else {
            load_lane::<u16>(w, m, at, lane)
        };
        match value {
            Ok(value) => {
                let row = d.dst + lane / 32;
                let new = narrow.merge(w.v.lane(row, lane & 31), value);
                w.v.set_lane(row, lane & 31, new);
            }
            Err(failure) => return fail(w, m, d, (narrow.bytes, lane), (failure, 1 << lane)),
        }
    }
    Flow::NEXT
}

fn store_narrow(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let narrow = Narrow::unpack(d.aux);
    for lane in active(w) {
        let at = segment(w, m, d, lane);
        let word = w.v.lane(d.src[1].value + lane / 32, lane & 31);
        let value = if narrow.half == Some(Half::High) { word >> 16 } else { word };
        let done = if narrow.bytes == 1 {
            store_lane(w, m, at, lane, value as u8)
        } else {
            store_lane(w, m, at, lane, value as u16)
        };
        if let Err(failure) = done {
            return fail(w, m, d, (narrow.bytes, lane), (failure, 1 << lane));
        }
    }
    Flow::NEXT
}

fn atomic32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    for lane in active(w) {
        let (half, at_lane) = (lane / 32, lane & 31);
        let data = w.v.lane(d.src[1].value + half, at_lane);
        let other = w.v.lane(d.src[1].value + half + w.halves, at_lane);
        let old = match segment(w, m, d, lane) {
            Segment::Global(va) if function == Function::Add => {
                m.global.add_u32(va, data).map_err(Failure::Memory)
            }
            Segment::Global(va) => {
                m.global.update_u32(va, |old| function.apply32(old, data, other)).map_err(Failure::Memory)
            }
            at => modify_lane::<u32>(w, m, at, lane, |old| function.apply32(old, data, other)),
        };
        match old {
            Ok(old) if d.flags & flag::RETURN != 0 => w.v.set_lane(d.dst + half, at_lane, old),
            Ok(_) => {}
            Err(failure) => return fail(w, m, d, (4, lane), (failure, 1 << lane)),
        }
    }
    Flow::NEXT
}

fn atomic64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    for lane in active(w) {
        let data = lane64(w, d.src[1].value, lane);
        let other = lane64(w, d.src[1].value + 2 * w.halves, lane);
        let old = match segment(w, m, d, lane) {
            Segment::Global(va) => {
                m.global.update_u64(va, |old| function.apply64(old, data, other)).map_err(Failure::Memory)
            }
            at => modify64(w, m, at, lane, |old| function.apply64(old, data, other)),
        };
        match old {
            Ok(old) if d.flags & flag::RETURN != 0 => set_lane64(w, d.dst, lane, old),
            Ok(_) => {}
            Err(failure) => return fail(w, m, d, (8, lane), (failure, 1 << lane)),
        }
    }
    Flow::NEXT
}

/// An atomic on memory only this workgroup or lane sees.
fn modify_lane<T: Word>(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    update: impl Fn(T) -> T,
) -> Result<T, Failure> {
    let old = load_lane::<T>(w, m, at, lane)?;
    store_lane(w, m, at, lane, update(old))?;
    Ok(old)
}

fn modify64(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    update: impl Fn(u64) -> u64,
) -> Result<u64, Failure> {
    let low: u32 = load_lane(w, m, at, lane)?;
    let high: u32 = load_lane(w, m, advance(at, 1), lane)?;
    reach(w, m, at, lane, 8)?;
    let old = u64::from(low) | u64::from(high) << 32;
    let new = update(old);
    store_lane(w, m, at, lane, new as u32)?;
    store_lane(w, m, advance(at, 1), lane, (new >> 32) as u32)?;
    Ok(old)
}

/// How a FLAT, GLOBAL or SCRATCH operation is lowered.
pub(crate) struct FlatEntry {
    pub(crate) handler: Handler,
    pub(crate) aux: u8,
    /// Registers of the result, 0 for none (atomics: when they return).
    pub(crate) dst: u32,
    /// Registers of the data operand.
    pub(crate) data: u32,
    pub(crate) atomic: bool,
}

/// The lowering of a name such as `load_b32` or `atomic_add_u32`, the part after `flat_`, `global_`, `scratch_`.
pub(crate) fn parse(name: &str, backend: BackendKind) -> Option<FlatEntry> {
    let narrow = |bytes: u32, signed: bool, half: Option<Half>, load: bool| FlatEntry {
        handler: if load { load_narrow } else { store_narrow },
        aux: Narrow { bytes, signed, half }.pack(),
        dst: u32::from(load),
        data: u32::from(!load),
        atomic: false,
    };
    let load = |handler: Handler, dst: u32| FlatEntry { handler, aux: 0, dst, data: 0, atomic: false };
    let store = |handler: Handler, data: u32| FlatEntry { handler, aux: 0, dst: 0, data, atomic: false };
    Some(match name {
        "load_b32" => load(load_b32(backend), 1),
        "load_b64" => load(load_n::<2>(backend), 2),
        "load_b96" => load(load_n::<3>(backend), 3),
        "load_b128" => load(load_n::<4>(backend), 4),
        "store_b32" => store(store_b32(backend), 1),
        "store_b64" => store(store_n::<2>(backend), 2),
        "store_b96" => store(store_n::<3>(backend), 3),
        "store_b128" => store(store_n::<4>(backend), 4),
        "load_u8" => narrow(1, false, None, true),
        "load_i8" => narrow(1, true, None, true),
        "load_u16" => narrow(2, false, None, true),
        "load_i16" => narrow(2, true, None, true),
        "load_d16_u8" => narrow(1, false, Some(Half::Low), true),
        "load_d16_i8" => narrow(1, true, Some(Half::Low), true),
        "load_d16_b16" => narrow(2, false, Some(Half::Low), true),
        "load_d16_hi_u8" => narrow(1, false, Some(Half::High), true),
        "load_d16_hi_i8" => narrow(1, true, Some(Half::High), true),
        "load_d16_hi_b16" => narrow(2, false, Some(Half::High), true),
        "store_b8" => narrow(1, false, None, false),
        "store_b16" => narrow(2, false, None, false),
        "store_d16_hi_b8" => narrow(1, false, Some(Half::High), false),
        "store_d16_hi_b16" => narrow(2, false, Some(Half::High), false),
        _ => {
            let (function, bits, operands) = Function::parse(name.strip_prefix("atomic_")?)?;
            FlatEntry {
                handler: if bits == 64 { atomic64 } else { atomic32 },
                aux: function as u8,
                dst: bits / 32,
                data: bits / 32 * operands,
                atomic: true,
            }
        }
    })
}
