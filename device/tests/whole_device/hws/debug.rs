//! Debugger fields of MAP_PROCESS: the mode that waves begin in, and the addresses that they stop at.

use belfry_abi::regs::gc;
use belfry_device::chip::Shape;

use super::area::{Found, saved};
use super::driver::{ALL_NOT_STATIC, doorbell, list_of};
use super::xnack::{COUNT, Rig};
use super::{SMALL, completes};
use crate::driver::eventually;
use crate::driver::kernels::{dispatch, signal};

/// Dwords of MAP_PROCESS: `SPI_GDBG_PER_VMID_CNTL`, and `TCP_WATCHn_CNTL` from the second on.
const LAUNCH: usize = 14;
const WATCHES: usize = 15;
/// Launch modes, with `TRAP_EN`.
const HALTED: u32 = 1 << 1 | 1 << 3;
const STEPPING: u32 = 3 << 1 | 1 << 3;
/// `STATUS.HALT`, and the place of `EXCP_EN` in `MODE`.
const HALT: u32 = 1 << 13;
const EXCP_EN: u32 = 12;
/// A valid watch for stores, of 128 bytes.
const STORES: u32 = 1 << 31 | 1 << 29 | 0xff_ffff;
/// `EXCP_EN` of watches, in `SPI_GDBG_PER_VMID_CNTL`.
const TRAP_WATCHES: u32 = 1 << (4 + 7);

/// Code that the driver's handler goes on in: `s_bitset1_b32 ttmp12, 13`, `s_setreg_b32 hwreg(HW_REG_STATUS),
/// ttmp12`, `s_rfe_b64 ttmp[0:1]`.
const HALTING: [u32; 3] = [0xbef8_1a8d, 0xb978_f802, 0xbe80_1f6c];

/// A queue with a kernel whose result has memory, and with a handler that halts waves.
struct Debugged {
    rig: Rig,
    area: u64,
    kernel: u64,
    arguments: u64,
    /// The result, in memory and in the process.
    result: (u64, u64),
}

impl Debugged {
    fn new(shape: Shape) -> Self {
        let mut rig = Rig::new(shape, false);
        rig.hws.unmap(ALL_NOT_STATIC, &[]);
        let queue = rig.queue.mqd_memory;
        let area = rig.give_area(queue);
        for xcc in 0..u64::from(rig.hws.in_each) {
            let mut mqd = rig.hws.mqd_at(queue);
            mqd.set_v9(belfry_abi::mqd::v9::COMPUTE_CURRENT_LOGIC_XCC_ID, xcc as u32);
            mqd.compute_pgm_rsrc2 |= 1 << 6;
            rig.hws.driver.put_ram(queue + xcc * 4096, &mqd);
        }
        let ((_, kernel), arguments, result) = rig.kernel();
        let Rig { hws, process, .. } = &mut rig;
        let memory = hws.driver.alloc_ram(u64::from(COUNT) * 4);
        for page in (0..u64::from(COUNT) * 4).step_by(4096) {
            process.map_page(&mut hws.driver, result + page, memory + page);
        }
        let (code, code_va) = process.alloc(&mut hws.driver, 4096);
        for (at, word) in (code..).step_by(4).zip(&HALTING) {
            hws.driver.put_ram(at, word);
        }
        let (trap_memory, trap_memory_va) = process.alloc(&mut hws.driver, 4096);
        hws.driver.set_ram_u64(trap_memory, code_va);
        // SQ_SHADER_TMA.
        rig.list[8..10].copy_from_slice(&[(trap_memory_va >> 8) as u32, (trap_memory_va >> 40) as u32]);
        Self { rig, area, kernel, arguments, result: (memory, result) }
    }

    /// Runs the list with other words of MAP_PROCESS.
    fn run(&mut self, launch: u32, watches: [u32; 4]) {
        self.rig.list[LAUNCH] = launch;
        self.rig.list[WATCHES..WATCHES + 4].copy_from_slice(&watches);
        let list = self.rig.list.clone();
        self.rig.hws.run(&list);
    }

    /// Launches the kernel; returns the place of its signal.
    fn launch(&mut self) -> u64 {
        let Rig { hws, process, queue, .. } = &mut self.rig;
        let (done, done_va) = signal(&mut hws.driver, process, 0);
        queue.put(&hws.driver, &dispatch(self.kernel, self.arguments, COUNT, 256, done_va));
        done
    }

    /// Takes the queue off; returns its waves.
    fn take_off(&mut self) -> Vec<Found> {
        self.rig.hws.unmap(ALL_NOT_STATIC, &[]);
        saved(&self.rig.hws, self.rig.queue.mqd_memory, self.area)
    }

    /// Takes the queue off, and puts it on again, until `count` of its waves have stopped and no others are
    /// left.
    fn stopped(&mut self, count: usize) -> Vec<Found> {
        let list = self.rig.list.clone();
        let mut found = Vec::new();
        eventually("waves stop", || {
            found = self.take_off();
            let all = found.len() == count && found.iter().all(|wave| wave.status & HALT != 0);
            if !all {
                self.rig.hws.run(&list);
            }
            all
        });
        found
    }

    /// Lets stopped waves go on, without their exceptions and steps.
    fn release(&self, waves: &[Found]) {
        for wave in waves {
            let [status, trapsts, mode] = wave.places().map(|place| self.area + place);
            self.rig.hws.driver.put_ram(status, &(wave.status & !HALT));
            self.rig.hws.driver.put_ram(trapsts, &0u32);
            self.rig.hws.driver.put_ram(mode, &(wave.mode & 0x7ff));
        }
    }

    fn sum(&self, at: u32) -> f32 {
        f32::from_bits(self.rig.hws.driver.ram_u32(self.result.0 + u64::from(at) * 4))
    }

    fn finishes(&self, done: u64) {
        eventually("the kernel completes", || self.rig.hws.driver.ram_u64(done + 8) == 0);
        assert!((0..COUNT).all(|at| (self.sum(at) - at as f32 * 3.0).abs() < f32::EPSILON));
        assert_eq!(self.rig.hws.driver.gpu.stats().errors, Default::default());
    }

    /// Writes the address of a watch on a core.
    fn watch(&self, xcc: u8, address: u64) {
        self.rig.hws.set(xcc, gc::TCP_WATCH1_ADDR_H((address >> 32) as u32));
        self.rig.hws.set(xcc, gc::TCP_WATCH1_ADDR_L(address as u32));
    }
}

#[test]
fn waves_begin_halted_and_with_the_exceptions_that_the_process_is_mapped_with() {
    let mut debugged = Debugged::new(SMALL);
    // Invalid operations, denormals and integer divisions by zero, instead of the kernel's own.
    debugged.run(HALTED | 0x43 << 4 | 1 << 13, [0; 4]);
    let done = debugged.launch();
    let waves = debugged.stopped((COUNT / 64) as usize);
    let first = waves[0].pc;
    for wave in &waves {
        assert_eq!((wave.pc, wave.trapsts), (first, 0), "{wave:x?}");
        assert_eq!(wave.mode >> EXCP_EN & 0x1ff, 0x43);
    }
    assert!((1..COUNT).all(|at| debugged.sum(at) == 0.0), "none has stored");
    // Later waves begin as usual.
    debugged.release(&waves);
    debugged.run(0, [0; 4]);
    debugged.finishes(done);
    let done = debugged.launch();
    debugged.finishes(done);
}

#[test]
fn waves_step_where_the_process_is_mapped_so() {
    let mut debugged = Debugged::new(SMALL);
    debugged.run(STEPPING, [0; 4]);
    let done = debugged.launch();
    let waves = debugged.stopped((COUNT / 64) as usize);
    let first = waves[0].pc;
    for wave in &waves {
        assert_eq!((wave.pc, wave.trapsts), (first, 1 << 25), "one instruction: {wave:x?}");
    }
    debugged.release(&waves);
    debugged.run(0, [0; 4]);
    debugged.finishes(done);
}

#[test]
fn store_to_a_watched_address_stops_its_wave_on_each_number_of_xccs() {
    for shape in [SMALL, Shape { xccs: 2, cus: 2 }] {
        let mut debugged = Debugged::new(shape);
        let watched = debugged.result.1 + 1024 * 4;
        (0..shape.xccs as u8).for_each(|xcc| debugged.watch(xcc, watched));
        // The address of a watch that does not exist may have any value.
        debugged.rig.hws.set(shape.xccs as u8 - 1, gc::TCP_WATCH3_ADDR_L(0x1000));
        debugged.run(1 << 3 | TRAP_WATCHES, [0, STORES, 0, 0]);
        let done = debugged.launch();
        let waves = debugged.stopped(1);
        assert_eq!((waves[0].group, waves[0].trapsts & 0x7080), (4, 1 << 12), "the second watch");
        assert!((debugged.sum(1024) - 3072.0).abs() < f32::EPSILON, "it has stored");
        assert_ne!(debugged.rig.hws.driver.ram_u64(done + 8), 0);
        debugged.release(&waves);
        // The watch ends when the list no longer has it.
        debugged.run(0, [0; 4]);
        debugged.finishes(done);
        let done = debugged.launch();
        debugged.finishes(done);
        assert!(
            debugged.rig.hws.driver.gpu.unmodelled().iter().all(|(name, ..)| !name.starts_with("TCP_WATCH"))
        );
    }
}

#[test]
fn watches_that_differ_between_xccs_are_those_of_the_first_and_counted() {
    let mut debugged = Debugged::new(Shape { xccs: 2, cus: 2 });
    debugged.watch(0, debugged.result.1);
    debugged.run(1 << 3 | TRAP_WATCHES, [0, STORES, 0, 0]);
    debugged.launch();
    let waves = debugged.stopped(1);
    assert_eq!(waves[0].group, 0);
    let unmodelled = debugged.rig.hws.driver.gpu.unmodelled();
    assert!(
        unmodelled.iter().any(|(name, ..)| name == "TCP_WATCHn_ADDR that differ between XCCs"),
        "{unmodelled:?}"
    );
}

#[test]
fn processes_that_are_mapped_with_what_does_not_exist_are_refused_and_others_run() {
    let mut debugged = Debugged::new(SMALL);
    let launch = "MAP_PROCESS with a launch mode, or bits of SPI_GDBG_PER_VMID_CNTL, that do not exist";
    let watch = "MAP_PROCESS with a TCP_WATCHn_CNTL that has a VMID, or ATC";
    for (settings, watches, name, count) in [
        (2 << 1, [0; 4], launch, 1),
        (1 << 16, [0; 4], launch, 2),
        (1 << 3, [STORES | 3 << 24, 0, 0, 0], watch, 1),
        (1 << 3, [0, 0, 0, STORES | 1 << 28], watch, 2),
    ] {
        let (process, queue) = {
            let hws = &mut debugged.rig.hws;
            let mut other = hws.process(0x8002);
            let queue = hws.queue(&mut other, doorbell(2, 0));
            (other, queue)
        };
        let (mut process, mut queue) = (process, queue);
        debugged.rig.list[LAUNCH] = settings;
        debugged.rig.list[WATCHES..WATCHES + 4].copy_from_slice(&watches);
        let list = [debugged.rig.list.clone(), list_of(&debugged.rig.hws, &process, &[&queue])].concat();
        debugged.rig.hws.run(&list);
        completes(&mut debugged.rig.hws, &mut process, &mut queue);
        assert_eq!(debugged.rig.hws.errors(name), count, "{settings:#x} {watches:x?}");
    }
    // A control that is not valid counts as none, with any other bits.
    let mapped = debugged.rig.hws.driver.gpu.stats().queues_mapped;
    debugged.run(0, [3 << 24; 4]);
    assert_eq!(debugged.rig.hws.driver.gpu.stats().queues_mapped, mapped + 1);
}

#[test]
fn snapshot_has_what_debuggers_have_set() {
    let mut debugged = Debugged::new(SMALL);
    debugged.watch(0, debugged.result.1);
    debugged.run(HALTED | TRAP_WATCHES, [0, STORES, 0, 0]);
    let saved = debugged.rig.hws.driver.gpu.save().expect("it runs");
    debugged.rig.hws.driver = debugged.rig.hws.driver.continued(&saved, saved.config());
    let done = debugged.launch();
    let waves = debugged.stopped((COUNT / 64) as usize);
    debugged.release(&waves);
    debugged.run(0, [0; 4]);
    debugged.finishes(done);
}
