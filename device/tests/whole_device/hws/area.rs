//! Context save areas as debuggers of gfx9 read them (ROCdbgapi `architecture.cpp`, of gfx90a and on).

use super::SMALL;
use super::driver::{ALL_NOT_STATIC, Hws};
use super::xnack::{COUNT, Rig};
use crate::driver::kernels::{dispatch, signal};

const STATE: u32 = 1 << 31;
const EVENT: u32 = 1 << 30;
/// Waves of the grid.
const WAVES: u32 = COUNT / 64;

/// State of a wave, as a debugger finds it.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    first: bool,
    last: bool,
    pub(super) pc: u64,
    exec: u64,
    pub(super) status: u32,
    pub(super) trapsts: u32,
    pub(super) mode: u32,
    xnack_mask: u64,
    packet: u32,
    pub(super) group: u32,
    number: u32,
    /// Offset of its hardware registers, from the beginning of the area.
    pub(super) hwregs: u64,
}

impl Found {
    /// Offsets of `STATUS`, `TRAPSTS` and `MODE`.
    pub(super) fn places(&self) -> [u64; 3] {
        [20, 24, 36].map(|offset| self.hwregs + offset)
    }
}

/// Reads a stack from its lowest address on, and the contexts from the highest on; returns the waves, and the
/// offset at which the last context begins.
fn waves(words: &[u32], memory: &impl Fn(u64) -> u32, end: u64) -> (Vec<Found>, u64) {
    assert_eq!(words[0], 0xc001_7600, "SET_SH_REG with one value");
    let (mut state, mut at, mut found) = (0, end, Vec::new());
    for &word in &words[2..] {
        if word & EVENT != 0 {
            continue;
        }
        if word & STATE != 0 {
            state = word;
            continue;
        }
        let registers = (1 + (state & 0x3f)) * 8;
        let vectors = (1 + (state >> 24 & 0x3f)) * 4;
        assert!(vectors <= registers, "{state:#x}");
        let scalars = (1 + (state >> 6 & 7)) * 16 - 16;
        let first = word >> 17 & 1 != 0;
        let lds = if first { (state >> 9 & 0xff) * 512 } else { 0 };
        let ttmps = at - 64 - u64::from(lds) - 64;
        let hwregs = ttmps - 64;
        at = hwregs - u64::from(scalars) * 4 - u64::from(registers) * 256;
        let quad = |at: u64| u64::from(memory(at)) | u64::from(memory(at + 4)) << 32;
        let ttmp = |number: u64| memory(ttmps + number * 4);
        found.push(Found {
            first,
            last: word >> 16 & 1 != 0,
            pc: quad(hwregs + 4),
            exec: quad(hwregs + 12),
            status: memory(hwregs + 20),
            trapsts: memory(hwregs + 24),
            mode: memory(hwregs + 36),
            xnack_mask: quad(hwregs + 28),
            packet: ttmp(11) >> 6 & 0x1ff_ffff,
            group: ttmp(8),
            number: ttmp(11) & 0x3f,
            hwregs,
        });
    }
    (found, at)
}

/// Takes a kernel off whose vector begins `offset` bytes after the beginning of a page, with only its first
/// page mapped; returns its waves, and the address of its code.
fn taken_off(offset: u64) -> (Vec<Found>, u64) {
    let mut rig = Rig::new(SMALL, true);
    rig.hws.unmap(ALL_NOT_STATIC, &[]);
    let queue = rig.queue.mqd_memory;
    let area = rig.give_area(queue);
    rig.hws.run(&rig.list.clone());
    let ((_, kernel), arguments, target) = rig.kernel_at(offset);
    let (_, done) = signal(&mut rig.hws.driver, &mut rig.process, 0);
    let Rig { hws, process, queue: ring, .. } = &mut rig;
    if offset != 0 {
        let memory = hws.driver.alloc_ram(4096);
        process.map_page(&mut hws.driver, target & !0xfff, memory);
    }
    ring.put(&hws.driver, &dispatch(kernel, arguments, COUNT, 256, done));
    rig.told(4);
    rig.hws.unmap(ALL_NOT_STATIC, &[]);
    (saved(&rig.hws, queue, area), kernel)
}

/// The waves of a queue that has been taken off, whose MQD and area are at these places in memory.
pub(super) fn saved(hws: &Hws, queue: u64, area: u64) -> Vec<Found> {
    let mqd = hws.mqd_at(queue);
    let (stack, bottom) = (mqd.cp_hqd_cntl_stack_offset, mqd.cp_hqd_cntl_stack_size);
    if stack == bottom {
        return Vec::new();
    }
    let read = |at: u64| hws.driver.ram_u32(area + at);
    let words: Vec<u32> = (stack..bottom).step_by(4).map(|at| read(at.into())).collect();
    let (found, begin) = waves(&words, &read, mqd.cp_hqd_wg_state_offset.into());
    assert_eq!(begin, u64::from(bottom), "the waves fill their part");
    found
}

#[test]
fn area_has_the_waves_where_debuggers_look_for_them() {
    let (found, kernel) = taken_off(0);
    assert!(found.len() >= 48, "{} waves", found.len());
    for groups in found.chunks(4) {
        for (number, wave) in (0..).zip(groups) {
            assert_eq!((wave.first, wave.last, wave.number), (number == 0, number == 3, number));
            assert!((kernel & !0xfff..kernel + 0x2000).contains(&wave.pc), "{wave:x?}");
            assert_eq!((wave.exec, wave.xnack_mask, wave.packet), (u64::MAX, 0, 0));
            assert!(wave.group < WAVES / 4 && wave.group == groups[0].group, "{wave:x?}");
        }
    }
}

#[test]
fn lanes_that_are_left_of_an_instruction_are_in_the_mask() {
    let (found, _) = taken_off(128);
    // The first page ends in the middle of the wave that stores to both.
    let partly: Vec<_> = found.iter().filter(|wave| wave.xnack_mask != 0).collect();
    assert_eq!(partly.len(), 1, "{found:x?}");
    assert_eq!((partly[0].xnack_mask, partly[0].group, partly[0].number), (u64::MAX << 32, 3, 3));
}
