//! The control stack: the state of a preempted queue that is in no wave's context.
//!
//! Its words, from the lowest address on, as readers of stacks expect them (ROCdbgapi `queue.cpp`, `architecture.cpp`):
//!
//! | word | meaning |
//! | --- | --- |
//! | two words | SET_SH_REG of COMPUTE_RELAUNCH: its values follow |
//! | bit 31 | a state: how the waves that follow are made; on gfx11 with a second word |
//! | bit 30 | an event, which debuggers skip |
//! | neither | a wave, in the order in which they are launched again |
//!
//! | what | gfx11 | gfx9 |
//! | --- | --- | --- |
//! | state: vector registers, minus 1 | 5:0, in units of 8 of a wave32, 4 of a wave64 | 5:0, of both kinds, in units of 8 |
//! | first accumulation register, minus 1 | | 29:24, in units of 4 |
//! | scalar registers with trap temporaries, minus 1 | | 8:6, in units of 16 |
//! | LDS in units of 512 bytes | 17:10 | 16:9 |
//! | waves of 32 lanes | 24 | |
//! | the dispatch of the waves, counted from the read index | second word | an event with bit 28: 23:0 |
//! | wave: the first of its workgroup, which has the LDS | 12 | 17 |
//! | the last | 29 | 16 |
//! | its number in the workgroup | 4:0 | 4:0 |
//! | blocks of vector registers that it has allocated beside its first one (gfx12) | 23:21 | |
//! | it waits for the global wave sync, at a semaphore instead of a barrier, of which resource | 13, 14, 20:15 | 5, 6, 12:7 |
//!
//! An event with bit 29: the scratch slot of the wave before it, in bits 15:0. Other events: one to three bytes of the
//! packet processor's state, in bits 23:0, and their number in bits 25:24.
//!
//! The first wave in the stack has its context at the end of the waves, and so on downwards. The context of a wave that
//! allocates has room for all registers that it could have. The encoding of a wave's number, of its wait, of its
//! dispatch and of the events is this device's own choice: hardware has them, undocumented.

use std::ops::Range;

use belfry_isa::inst::WaveSize;
use zerocopy::IntoBytes;

use crate::chip::StackForm;
use crate::queue::{ContextArea, ContextOffsets};
use crate::shader::{ContextError, GwsWait, Launch, SavedGroup, SavedWave};
use crate::vm::AddressSpace;

/// Bytes before the control stack: `kfd_context_save_area_header`, and the eight that the kernel adds to it.
const HEADER: u32 = 48;
/// Most bytes of a control stack; a descriptor that declares more is refused.
const MAX_STACK: u32 = 1 << 20;

/// PM4 type 3, SET_SH_REG with one value, and the register's offset.
const LEADER: [u32; 2] = [0xc001_7600, 0x231];
const STATE: u32 = 1 << 31;
const EVENT: u32 = 1 << 30;
const SCRATCH: u32 = 1 << 29;
const DISPATCH: u32 = 1 << 28;
/// Shift of the number of allocated blocks. Waves of gfx9 have none.
const BLOCKS_SHIFT: u32 = 21;
/// `COMPUTE_RELAUNCH` of gfx9: 128 scalar registers.
const SGPRS: u32 = 7 << 6;

/// Bits of the fields of a wave.
struct Form {
    first: u32,
    last: u32,
    waits: u32,
    semaphore: u32,
    resource: u32,
}

const GFX9: Form = Form { first: 1 << 17, last: 1 << 16, waits: 1 << 5, semaphore: 1 << 6, resource: 7 };
const GFX11: Form = Form { first: 1 << 12, last: 1 << 29, waits: 1 << 13, semaphore: 1 << 14, resource: 15 };

impl Form {
    fn of(form: StackForm) -> &'static Self {
        match form {
            StackForm::Gfx9 => &GFX9,
            StackForm::Gfx11 => &GFX11,
        }
    }

    fn wave(&self, wave: &SavedWave, is_first: bool, is_last: bool) -> u32 {
        let mut word = wave.number & 31 | (u32::from(wave.more_blocks) & 7) << BLOCKS_SHIFT;
        word |= if is_first { self.first } else { 0 };
        word |= if is_last { self.last } else { 0 };
        word | match wave.waits {
            None => 0,
            Some(GwsWait::Barrier(resource)) => self.waits | u32::from(resource) << self.resource,
            Some(GwsWait::Semaphore(resource)) => {
                self.waits | self.semaphore | u32::from(resource) << self.resource
            }
        }
    }

    fn saved(&self, word: u32) -> SavedWave {
        let resource = (word >> self.resource & 63) as u8;
        let waits = (word & self.waits != 0).then_some(match word & self.semaphore {
            0 => GwsWait::Barrier(resource),
            _ => GwsWait::Semaphore(resource),
        });
        SavedWave {
            number: word & 31,
            scratch_slot: None,
            waits,
            more_blocks: (word >> BLOCKS_SHIFT & 7) as u8,
        }
    }
}

/// The groups of waves of a dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waves {
    /// Number of the dispatch, counted from the read index.
    pub(super) dispatch: u32,
    /// Workgroups in the order of their contexts, from the lowest address on.
    pub(super) groups: Vec<SavedGroup>,
}

/// Puts a stack together. `state` is the packet processor's. Dispatches and groups are in the order of their contexts.
pub(super) fn encode(state: &[u8], waves: &[(Waves, &Launch)], form: StackForm) -> Vec<u32> {
    let fields = Form::of(form);
    let mut words = LEADER.to_vec();
    for bytes in state.chunks(3) {
        let data = bytes.iter().rev().fold(0, |data, &byte| data << 8 | u32::from(byte));
        words.push(EVENT | (bytes.len() as u32) << 24 | data);
    }
    for (Waves { dispatch, groups }, launch) in waves.iter().rev() {
        words.extend(match form {
            StackForm::Gfx9 => [relaunch_gfx9(launch), EVENT | DISPATCH | dispatch & 0xff_ffff],
            StackForm::Gfx11 => [relaunch(launch), *dispatch],
        });
        for group in groups.iter().rev() {
            for (at, wave) in group.waves.iter().enumerate() {
                words.push(fields.wave(wave, at == 0, at + 1 == group.waves.len()));
                words.extend(wave.scratch_slot.map(|slot| EVENT | SCRATCH | slot & 0xffff));
            }
        }
    }
    words
}

/// Writes a stack to the area at `base`, so that the stack ends at offset `end`. Returns the offset of its start.
pub(super) fn write(
    space: &AddressSpace,
    (base, end): (u64, u32),
    words: &[u32],
) -> Result<u32, ContextError> {
    let bytes = words.as_bytes();
    let room = end.saturating_sub(HEADER);
    let Some(stack) = u32::try_from(bytes.len()).ok().filter(|&bytes| bytes <= room) else {
        return Err(ContextError::StackTooLarge { needed: bytes.len() as u64, size: room.into() });
    };
    let stack = end - stack;
    space.write_bytes(base.wrapping_add(stack.into()), bytes).map_err(ContextError::Stack)?;
    Ok(stack)
}

/// Reads and [decodes](decode) the stack of an area.
pub(super) fn read(
    space: &AddressSpace,
    area: &ContextArea,
    offsets: ContextOffsets,
    form: StackForm,
) -> Result<(Vec<u8>, Vec<Waves>), ContextError> {
    let &ContextArea { base, size, stack_size } = area;
    let ContextOffsets { stack, waves } = offsets;
    let length = stack_size.checked_sub(stack).filter(|&length| length <= MAX_STACK);
    let Some(length) = length.filter(|length| length % 4 == 0 && stack >= HEADER) else {
        return Err(ContextError::Corrupt("where the control stack is"));
    };
    if waves < stack_size || waves > size {
        return Err(ContextError::Corrupt("where the waves are"));
    }
    let mut words = vec![0u32; length as usize / 4];
    let at = base.wrapping_add(stack.into());
    space.read_bytes(at, words.as_mut_bytes()).map_err(ContextError::Stack)?;
    decode(&words, form)
}

/// Returns `COMPUTE_RELAUNCH` of the state of a dispatch.
fn relaunch(launch: &Launch) -> u32 {
    let (wave32, unit) = match launch.wave_size {
        WaveSize::Wave32 => (1 << 24, 8),
        WaveSize::Wave64 => (0, 4),
    };
    let vgprs = u32::from(launch.most_vgprs()).div_ceil(unit).max(1) - 1;
    STATE | wave32 | vgprs & 0x3f | (launch.lds_size.div_ceil(512) & 0xff) << 10
}

/// Returns `COMPUTE_RELAUNCH` in the form of gfx9.
fn relaunch_gfx9(launch: &Launch) -> u32 {
    let all = u32::from(launch.vgpr_count).max(1).next_multiple_of(8);
    // A kernel without accumulation registers of its own has only other vector registers.
    let offset = match u32::from(launch.accum_offset) {
        0 => all.min(256),
        offset => offset.min(all),
    };
    let first = offset.div_ceil(4).max(1) - 1;
    let lds = launch.lds_size.div_ceil(512) & 0xff;
    STATE | SGPRS | (all / 8 - 1) & 0x3f | (first & 0x3f) << 24 | lds << 9
}

/// Takes a stack apart: returns the packet processor's state and the waves, both in the order in which [`encode`] was
/// given them. The guest may have written anything there.
pub(super) fn decode(words: &[u32], form: StackForm) -> Result<(Vec<u8>, Vec<Waves>), ContextError> {
    let fields = Form::of(form);
    let corrupt = |what| Err(ContextError::Corrupt(what));
    let Some(rest) = words.strip_prefix(&LEADER) else { return corrupt("the control stack's first words") };
    let mut words = rest.iter().copied();
    let (mut state, mut waves) = (Vec::new(), Vec::<Waves>::new());
    let mut open: Option<SavedGroup> = None;
    while let Some(word) = words.next() {
        if word & STATE != 0 {
            let dispatch = match (form, words.next()) {
                (StackForm::Gfx11, Some(dispatch)) => dispatch,
                (StackForm::Gfx9, Some(event)) if event >> 28 == (EVENT | DISPATCH) >> 28 => {
                    event & 0xff_ffff
                }
                _ => return corrupt("half a state"),
            };
            if open.is_some() {
                return corrupt("a workgroup without a last wave");
            }
            waves.push(Waves { dispatch, groups: Vec::new() });
        } else if word & EVENT != 0 && word & SCRATCH != 0 {
            let group = match &mut open {
                Some(group) => Some(group),
                None => waves.last_mut().and_then(|waves| waves.groups.last_mut()),
            };
            let Some(wave) = group.and_then(|group| group.waves.last_mut()) else {
                return corrupt("scratch memory of no wave");
            };
            wave.scratch_slot = Some(word & 0xffff);
        } else if word & EVENT != 0 {
            let count = (word >> 24 & 3) as usize;
            state.extend_from_slice(&word.to_le_bytes()[..count]);
        } else {
            let Some(waves) = waves.last_mut() else { return corrupt("a wave without a state") };
            let wave = fields.saved(word);
            if (word & fields.first != 0) == open.is_some() {
                return corrupt("a workgroup without a first wave, or with two");
            }
            let mut group = open.take().unwrap_or_default();
            if group.waves.last().is_some_and(|last| last.number >= wave.number) {
                return corrupt("waves of a workgroup out of order");
            }
            group.waves.push(wave);
            match word & fields.last {
                0 => open = Some(group),
                _ => waves.groups.push(group),
            }
        }
    }
    if open.is_some() {
        return corrupt("a workgroup without a last wave");
    }
    waves.iter_mut().for_each(|waves| waves.groups.reverse());
    waves.reverse();
    Ok((state, waves))
}

/// Cursor over the bytes of the packet processor's state.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ContextError> {
        let Some((taken, rest)) = self.0.split_first_chunk::<N>() else {
            return Err(ContextError::Corrupt("too little state"));
        };
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, ContextError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn word(&mut self) -> Result<u32, ContextError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn quad(&mut self) -> Result<u64, ContextError> {
        self.take().map(u64::from_le_bytes)
    }

    /// Reads a number of seven bits a byte, the lowest first.
    pub(super) fn number(&mut self) -> Result<u64, ContextError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ContextError::Corrupt("a number without an end"))
    }

    /// Reads the ranges that [`put_ranges`] has written.
    pub(super) fn ranges(&mut self) -> Result<Vec<Range<u64>>, ContextError> {
        let mut ranges = Vec::new();
        let mut end = 0u64;
        for _ in 0..self.number()? {
            let (gap, length) = (self.number()?, self.number()?);
            let range = end.checked_add(gap).and_then(|start| Some(start..start.checked_add(length)?));
            let range = range.ok_or(ContextError::Corrupt("workgroups beyond any grid"))?;
            end = range.end;
            ranges.push(range);
        }
        Ok(ranges)
    }
}

/// Writes ascending ranges.
pub(super) fn put_ranges(state: &mut Vec<u8>, ranges: &[Range<u64>]) {
    put_number(state, ranges.len() as u64);
    let mut end = 0;
    for range in ranges {
        put_number(state, range.start - end);
        put_number(state, range.end - range.start);
        end = range.end;
    }
}

/// Writes a number as [`Reader::number`] reads it.
pub(super) fn put_number(state: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        state.push(number as u8 | 0x80);
        number >>= 7;
    }
    state.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(number: u32, scratch_slot: Option<u32>, waits: Option<GwsWait>) -> SavedWave {
        SavedWave { number, scratch_slot, waits, more_blocks: number as u8 % 8 }
    }

    fn launch(wave_size: WaveSize) -> Launch {
        Launch {
            entry: 0,
            wave_size,
            vgpr_count: 24,
            allocates_vgprs: false,
            shared_vgprs: 0,
            accum_offset: 0,
            mode: 0,
            user_sgprs: Vec::new(),
            workgroup_id_sgprs: [false; 3],
            workgroup_info_sgpr: false,
            workitem_id_dims: 0,
            grid: [64, 1, 1],
            start: [0; 3],
            workgroup: [64, 1, 1],
            lds_size: 1024,
            scratch: None,
            scratch_bytes_per_lane: 0,
            trap: None,
            doorbell: 0,
            wgp_mode: false,
            cus: crate::chip::CuMask::ALL,
            shares: None,
            queue_ids: [0; 2],
            packet: 0,
            hangs: false,
        }
    }

    #[test]
    fn stack_is_read_as_it_was_written() {
        let first = Waves {
            dispatch: 0,
            groups: vec![
                SavedGroup { waves: vec![wave(0, Some(7), None), wave(3, Some(0xfffe), None)] },
                SavedGroup { waves: vec![wave(1, Some(0), Some(GwsWait::Barrier(63)))] },
            ],
        };
        let second = Waves {
            dispatch: 5,
            groups: vec![SavedGroup { waves: vec![wave(31, None, Some(GwsWait::Semaphore(5)))] }],
        };
        let state: Vec<u8> = (0..=10).collect();
        let (small, large) = (launch(WaveSize::Wave32), launch(WaveSize::Wave64));
        let waves = [(first.clone(), &small), (second.clone(), &large)];
        let words = encode(&state, &waves, StackForm::Gfx11);
        // Debuggers find the last state first, and the first wave of each workgroup before the others.
        assert_eq!(
            words[6..9],
            [STATE | 5 | 2 << 10, 5, 31 | 1 << 12 | 1 << 29 | 1 << 13 | 1 << 14 | 5 << 15 | 7 << 21]
        );
        assert_eq!(words[9..11], [STATE | 1 << 24 | 2 | 2 << 10, 0]);
        assert_eq!(
            decode(&words, StackForm::Gfx11),
            Ok((state.clone(), vec![first.clone(), second.clone()]))
        );
        // On gfx9 a state is one word, and an event follows it.
        let matrix = Launch { vgpr_count: 96, accum_offset: 32, ..launch(WaveSize::Wave64) };
        let words = encode(&state, &[(first.clone(), &large), (second.clone(), &matrix)], StackForm::Gfx9);
        let dispatch = EVENT | DISPATCH;
        assert_eq!(
            words[6..9],
            [
                STATE | 11 | 7 << 6 | 2 << 9 | 7 << 24,
                dispatch | 5,
                31 | 1 << 17 | 1 << 16 | 1 << 5 | 1 << 6 | 5 << 7 | 7 << 21
            ]
        );
        assert_eq!(words[9..11], [STATE | 2 | 7 << 6 | 2 << 9 | 5 << 24, dispatch]);
        let waves: Vec<u32> = words.iter().copied().filter(|word| word & (STATE | EVENT) == 0).collect();
        assert_eq!(waves[3..], [1 << 17, 3 | 1 << 16 | 3 << 21], "the first and the last of a workgroup");
        assert_eq!(decode(&words, StackForm::Gfx9), Ok((state, vec![first, second])));
        assert!(decode(&words, StackForm::Gfx11).is_err());
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut reader = Reader(&bytes);
            assert_eq!((reader.number(), reader.0), (Ok(number), &[][..]));
        }
        assert!(Reader(&[0x80; 20]).number().is_err() && Reader(&[0x80]).number().is_err());
    }

    #[test]
    fn stacks_that_cannot_be_are_refused() {
        for form in [StackForm::Gfx9, StackForm::Gfx11] {
            refuses(form);
        }
    }

    fn refuses(form: StackForm) {
        let stack = |words: &[u32]| decode(&[&LEADER[..], words].concat(), form);
        assert!(decode(&[], form).is_err() && decode(&[LEADER[1], LEADER[0]], form).is_err());
        let &Form { first, last, .. } = Form::of(form);
        let dispatch = if form == StackForm::Gfx9 { EVENT | DISPATCH } else { 0 };
        assert_eq!(stack(&[]), Ok((Vec::new(), Vec::new())));
        let whole = first | last;
        assert!(stack(&[STATE, dispatch, whole]).is_ok());
        for words in [
            &[STATE][..],
            &[whole],
            &[STATE, dispatch, last],
            &[STATE, dispatch, first],
            &[STATE, dispatch, first, STATE, dispatch | 1],
            &[STATE, dispatch, first, first | last | 1],
            &[STATE, dispatch, first | 2, last | 2],
            &[EVENT | SCRATCH],
            &[STATE, dispatch, EVENT | SCRATCH],
        ] {
            assert!(stack(words).is_err(), "{words:x?}");
        }
    }
}
