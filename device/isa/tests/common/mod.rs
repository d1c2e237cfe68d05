//! A flat address space and a dispatcher, just enough to run compiled kernels on the engine.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(unused_macros, reason = "the same")]
#![allow(unsafe_code, reason = "the flat address space gives out pointers into its own memory")]

use std::cell::UnsafeCell;

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Barriers, Env, Lds, Profile, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::mem::{Access, Apertures, Fault, FaultKind, Mapping, Mmu, Tlb};
use belfry_isa::wave::{Wave, WaveInit};
use object::{Object, ObjectSegment, ObjectSymbol};

/// The code objects of a source of kernels, for each chip; the path is from the folder of the tests.
macro_rules! fixture {
    ($name:literal) => {
        &[
            (
                Arch::Gfx942,
                include_bytes!(concat!("../../../guest-runtime/kernels/", $name, ".gfx942.hsaco")),
            ),
            (
                Arch::Gfx950,
                include_bytes!(concat!("../../../guest-runtime/kernels/", $name, ".gfx950.hsaco")),
            ),
            (
                Arch::Gfx1100,
                include_bytes!(concat!("../../../guest-runtime/kernels/", $name, ".gfx1100.hsaco")),
            ),
            (
                Arch::Gfx1151,
                include_bytes!(concat!("../../../guest-runtime/kernels/", $name, ".gfx1151.hsaco")),
            ),
            (
                Arch::Gfx1201,
                include_bytes!(concat!("../../../guest-runtime/kernels/", $name, ".gfx1201.hsaco")),
            ),
        ]
    };
}

/// Start of the memory in the GPU's address space.
pub(crate) const BASE: u64 = 0x7_0000_0000;
pub(crate) const APERTURES: Apertures = Apertures { shared_base: 1 << 48, private_base: 2 << 48 };

/// Memory at [`BASE`], a page-aligned piece of the host's.
pub(crate) struct Flat {
    memory: Box<[UnsafeCell<Page>]>,
    /// A page that is not mapped, or may only be read; 0: there is none.
    hidden: u64,
    readable: bool,
    generation: u64,
}

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; 4096]);

// SAFETY: tests share it only with the engine, which takes no references into it.
unsafe impl Send for Flat {}
// SAFETY: as above.
unsafe impl Sync for Flat {}

// SAFETY: the memory lives as long as the address space and is never borrowed while a wave runs.
unsafe impl Mmu for Flat {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        let len = self.memory.len() as u64 * 4096;
        if self.hidden != 0 && va.wrapping_sub(BASE) < len && va & !0xfff != self.hidden {
            // All that there is on this side of the page that is missing.
            let (start, end) = match va < self.hidden {
                true => (BASE, self.hidden),
                false => (self.hidden + 4096, BASE + len),
            };
            return Ok(self.part(start, end, true));
        }
        if self.hidden != 0 && self.readable && va & !0xfff == self.hidden {
            return Ok(self.part(self.hidden, self.hidden + 4096, false));
        }
        if va.wrapping_sub(BASE) < len && self.hidden == 0 {
            Ok(self.part(BASE, BASE + len, true))
        } else {
            Err(Fault::new(va, access, FaultKind::NotPresent))
        }
    }
    fn generation(&self) -> u64 {
        self.generation
    }
    fn context(&self) -> u64 {
        1
    }
}

impl Flat {
    pub(crate) fn new(bytes: usize) -> Self {
        let memory = (0..bytes.div_ceil(4096)).map(|_| UnsafeCell::new(Page([0; 4096]))).collect();
        Flat { memory, hidden: 0, readable: false, generation: 1 }
    }

    fn part(&self, start: u64, end: u64, writable: bool) -> Mapping {
        let (host, len) = (self.at(start, 4096), end - start);
        Mapping { va: start, len, host, writable, executable: true, mirrored: false, alone: false }
    }

    /// Takes the page at `va` away from waves.
    pub(crate) fn hide(&mut self, va: u64) {
        (self.hidden, self.readable) = (va & !0xfff, false);
        self.generation += 1;
    }

    /// Lets waves only read the page at `va`.
    pub(crate) fn protect(&mut self, va: u64) {
        self.hide(va);
        self.readable = true;
    }

    /// Gives back the page that [`Flat::hide`] took.
    pub(crate) fn unhide(&mut self) {
        self.hidden = 0;
        self.generation += 1;
    }

    fn at(&self, va: u64, len: usize) -> *mut u8 {
        let offset = usize::try_from(va - BASE).unwrap();
        assert!(offset + len <= self.memory.len() * 4096, "address {va:#x} is outside the test's memory");
        // SAFETY: inside the allocation, which `UnsafeCell` lets us write through.
        unsafe { UnsafeCell::raw_get(self.memory.as_ptr()).cast::<u8>().add(offset) }
    }

    pub(crate) fn write(&self, va: u64, bytes: &[u8]) {
        // SAFETY: `at` checked the range; no wave runs meanwhile.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(va, bytes.len()), bytes.len()) };
    }

    pub(crate) fn read(&self, va: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: as in `write`.
        unsafe { core::ptr::copy_nonoverlapping(self.at(va, len), bytes.as_mut_ptr(), len) };
        bytes
    }
}

/// Plain values that go to memory as little-endian bytes.
pub(crate) trait Plain: Copy {
    const SIZE: usize;
    fn put(self, out: &mut Vec<u8>);
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Plain for $type {
            const SIZE: usize = size_of::<$type>();
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                <$type>::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
plain!(u8 u16 u32 u64 i32 f32 f64);

/// A kernel compiled for several architectures.
pub(crate) type Objects<'a> = &'a [(Arch, &'a [u8])];

/// `ttmp0`.
const TTMP0: u8 = 108;

/// A GPU: memory, an allocator, and a worker's state.
pub(crate) struct Gpu {
    pub(crate) memory: Flat,
    next: u64,
    pub(crate) tlb: Tlb,
    pub(crate) code: CodeCache,
    pub(crate) lds: Lds,
    epoch: u64,
    scratch: u64,
    /// Counts of the operations that are executed, if they are wanted.
    pub(crate) profile: Option<Profile>,
}

/// A loaded kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) entry: u64,
    pub(crate) lds: u32,
    pub(crate) private: u32,
    pub(crate) rsrc1: u32,
    pub(crate) rsrc2: u32,
    pub(crate) rsrc3: u32,
    pub(crate) properties: u16,
}

/// Arguments of a launch, laid out by hand.
#[derive(Default)]
pub(crate) struct Args(pub(crate) Vec<u8>);

impl Args {
    pub(crate) fn push<T: Plain>(mut self, value: T) -> Self {
        self.0.resize(self.0.len().next_multiple_of(T::SIZE), 0);
        value.put(&mut self.0);
        self
    }

    /// The hidden arguments of code object version 5 after the explicit ones.
    pub(crate) fn hidden(mut self, grid: [u32; 3], block: [u16; 3]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let start = self.0.len();
        for dimension in grid {
            dimension.put(&mut self.0);
        }
        for dimension in block {
            dimension.put(&mut self.0);
        }
        self.0.resize(start + 256, 0);
        self
    }
}

impl Gpu {
    pub(crate) fn new(backend: Backend, bytes: usize) -> Self {
        Gpu::of(Arch::Gfx1100, backend, bytes)
    }

    pub(crate) fn of(arch: Arch, backend: Backend, bytes: usize) -> Self {
        let mut gpu = Gpu {
            memory: Flat::new(bytes),
            next: BASE + 4096,
            tlb: Tlb::new(),
            code: CodeCache::new(arch, backend),
            lds: Lds::new(0),
            epoch: 0,
            scratch: 0,
            profile: None,
        };
        gpu.scratch = gpu.alloc(1 << 16);
        gpu
    }

    pub(crate) fn alloc(&mut self, bytes: usize) -> u64 {
        let va = self.next;
        self.next = (va + bytes as u64).next_multiple_of(256);
        va
    }

    pub(crate) fn buffer<T: Plain>(&mut self, values: &[T]) -> u64 {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.put(&mut bytes));
        let va = self.alloc(bytes.len().max(4));
        self.memory.write(va, &bytes);
        va
    }

    pub(crate) fn fetch<T: Plain>(&self, va: u64, count: usize) -> Vec<T> {
        self.memory.read(va, count * T::SIZE).chunks(T::SIZE).map(T::get).collect()
    }

    /// Loads the one of several code objects that is for this GPU, and finds a kernel in it.
    pub(crate) fn load(&mut self, files: Objects<'_>, name: &str) -> Kernel {
        let own = files.iter().find(|(arch, _)| *arch == self.code.arch());
        self.load_object(own.expect("a code object of this architecture").1, name)
    }

    /// Loads a code object at a page and finds a kernel in it.
    pub(crate) fn load_object(&mut self, file: &[u8], name: &str) -> Kernel {
        let object = object::File::parse(file).unwrap();
        let end = object.segments().map(|s| s.address() + s.size()).max().unwrap();
        self.next = self.next.next_multiple_of(4096);
        let base = self.alloc(usize::try_from(end).unwrap());
        for segment in object.segments() {
            self.memory.write(base + segment.address(), segment.data().unwrap());
        }
        let symbol = format!("{name}.kd");
        let descriptor =
            object.dynamic_symbols().find(|s| s.name() == Ok(symbol.as_str())).unwrap().address();
        let bytes = self.memory.read(base + descriptor, 64);
        let word = |at: usize| u32::get(&bytes[at..at + 4]);
        Kernel {
            entry: (base + descriptor).wrapping_add(u64::get(&bytes[16..24])),
            lds: word(0),
            private: word(4),
            rsrc1: word(48),
            rsrc2: word(52),
            rsrc3: word(44),
            properties: u16::get(&bytes[56..58]),
        }
    }

    /// Runs a grid of workgroups one after the other; the executed instructions, or the fault.
    pub(crate) fn launch(
        &mut self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        args: &Args,
    ) -> Result<u64, Stop> {
        let kernarg = self.buffer(&args.0);
        // The packet's sizes of groups, and of the grid in work-items.
        let mut packet = [0_u32; 16];
        packet[1] = block[0] | block[1] << 16;
        packet[2] = block[2];
        (0..3).for_each(|n| packet[3 + n] = grid[n] * block[n]);
        let packet = self.buffer(&packet);
        self.epoch += 1;
        let wave_size = if kernel.properties & 1 << 10 != 0 { WaveSize::Wave32 } else { WaveSize::Wave64 };
        let lanes = if wave_size == WaveSize::Wave32 { 32 } else { 64 };
        let arch = self.code.arch();
        let granule = if lanes == 32 || arch.is_gfx9() { 8 } else { 4 };
        let accum_offset = if arch.is_gfx9() { ((kernel.rsrc3 & 63) + 1) * 4 } else { 0 };
        let threads = block.iter().product::<u32>();
        let mut executed = 0;
        let mut waves: Vec<Wave> = Vec::new();
        for group in 0..grid.iter().product::<u32>() {
            let id = [group % grid[0], group / grid[0] % grid[1], group / grid[0] / grid[1]];
            self.lds.reset(kernel.lds);
            let count = threads.div_ceil(lanes);
            self.lds.barriers = Barriers::new(count);
            for n in 0..count {
                let sgprs = user_sgprs(self.code.arch(), kernel, [packet, kernarg], id);
                let mut ids = [0; 64];
                for (lane, slot) in (0..lanes).zip(&mut ids) {
                    let t = n * lanes + lane;
                    *slot = (t % block[0])
                        | ((t / block[0] % block[1]) << 10)
                        | ((t / block[0] / block[1]) << 20);
                }
                let left = threads - n * lanes;
                let exec = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
                let init = WaveInit {
                    arch: self.code.arch(),
                    pc: kernel.entry,
                    exec,
                    wave_size,
                    sgprs: &sgprs,
                    vgprs: &[ids],
                    vgpr_count: u16::try_from(((kernel.rsrc1 & 63) + 1) * granule).unwrap(),
                    accum_offset: accum_offset as u16,
                    mode: mode(kernel.rsrc1),
                    scratch_base: self.scratch + u64::from(n * lanes * kernel.private),
                    scratch_size_per_lane: kernel.private,
                    in_workgroup: count > 1,
                    ..WaveInit::default()
                };
                match waves.get_mut(n as usize) {
                    Some(wave) => wave.restart(&init),
                    None => waves.push(Wave::new(&init)),
                }
                if self.code.arch() == Arch::Gfx1201 {
                    waves[n as usize].set_sgpr(TTMP0 + 9, id[0]);
                    waves[n as usize].set_sgpr(TTMP0 + 7, id[1] | id[2] << 16);
                }
            }
            self.run_group(&mut waves[..count as usize])?;
            executed += waves[..count as usize].iter().map(|wave| wave.instructions).sum::<u64>();
        }
        Ok(executed)
    }

    /// Runs the waves of a workgroup to their end.
    pub(crate) fn run_group(&mut self, waves: &mut [Wave]) -> Result<(), Stop> {
        let mut ended = vec![false; waves.len()];
        while ended.iter().any(|ended| !ended) {
            for (wave, ended) in waves.iter_mut().zip(&mut ended).filter(|(_, ended)| !**ended) {
                if wave.waits_at_split_barrier() {
                    if !self.lds.barriers.lets_pass(wave) {
                        continue;
                    }
                    wave.pass_split_barrier();
                }
                loop {
                    match self.step(wave, 100_000) {
                        Stop::EndProgram => {
                            *ended = true;
                            self.lds.barriers.leave();
                        }
                        Stop::Barrier => {}
                        Stop::Budget | Stop::Turn | Stop::Sleep => continue,
                        other => return Err(other),
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the environment that waves run in, and the profile that counts their operations.
    fn env(&mut self) -> (Env<'_>, &mut Option<Profile>) {
        let env = Env {
            mmu: &self.memory,
            tlb: &mut self.tlb,
            code: &mut self.code,
            lds: &mut self.lds,
            apertures: APERTURES,
            clock: &|| 0,
            code_epoch: self.epoch,
        };
        (env, &mut self.profile)
    }

    /// Runs one wave until it stops.
    pub(crate) fn step(&mut self, wave: &mut Wave, budget: u64) -> Stop {
        let (mut env, profile) = self.env();
        match profile {
            Some(profile) => exec::run_profiled(wave, &mut env, budget, profile),
            None => exec::run(wave, &mut env, budget),
        }
    }

    /// Returns the accesses that a wave's next instruction is about to make.
    pub(crate) fn touches(&mut self, wave: &mut Wave) -> Vec<exec::Touch> {
        let (mut env, _) = self.env();
        exec::touches(wave, &mut env)
    }

    /// Runs one wave until it stops, by another clock than one that stands at 0.
    pub(crate) fn step_at(&mut self, wave: &mut Wave, clock: &dyn Fn() -> u64) -> Stop {
        let (env, _) = self.env();
        exec::run(wave, &mut Env { clock, ..env }, 1000)
    }

    /// Runs one wave until it stops, and those that `next` makes of it.
    pub(crate) fn run_many(&mut self, wave: &mut Wave, budget: u64, next: &mut impl exec::Next) -> Stop {
        let (mut env, _) = self.env();
        exec::run_many(wave, &mut env, budget, next)
    }

    /// Runs waves of a workgroup in turns.
    pub(crate) fn run_in_turns(
        &mut self,
        waves: &mut [Wave],
        first: exec::Go,
        next: &mut exec::NextTurn<'_>,
    ) -> Option<exec::Stopped> {
        let (mut env, _) = self.env();
        exec::run_in_turns(waves, &mut env, first, next)
    }

    /// Executes the one instruction that a wave is at.
    pub(crate) fn step_one(&mut self, wave: &mut Wave) -> Stop {
        let (mut env, _) = self.env();
        exec::step(wave, &mut env, None)
    }

    /// Tells the engine that code may have changed.
    pub(crate) fn new_epoch(&mut self) {
        self.epoch += 1;
    }
}

/// `MODE` from `FLOAT_MODE`, `ENABLE_DX10_CLAMP` and `ENABLE_IEEE_MODE`.
pub(crate) fn mode(rsrc1: u32) -> u32 {
    ((rsrc1 >> 12) & 0xff) | (((rsrc1 >> 21) & 1) << 8) | (((rsrc1 >> 23) & 1) << 9)
}

pub(crate) fn user_sgprs(arch: Arch, kernel: &Kernel, [packet, kernarg]: [u64; 2], id: [u32; 3]) -> Vec<u32> {
    let mut sgprs = Vec::new();
    let mut pair = |bit: u16, value: u64, words: usize| {
        if kernel.properties & 1 << bit != 0 {
            sgprs.extend_from_slice(&[value as u32, (value >> 32) as u32, 0, 0][..words]);
        }
    };
    pair(0, 0, 4);
    pair(1, packet, 2);
    pair(2, 0, 2);
    pair(3, kernarg, 2);
    pair(4, 0, 2);
    pair(5, 0, 2);
    pair(6, u64::from(kernel.private), 1);
    // The count of user SGPRs may be larger than what is enabled.
    sgprs.resize((kernel.rsrc2 >> 1 & 31) as usize, 0);
    for (n, value) in id.into_iter().enumerate() {
        // From gfx12 on they are in trap temporaries.
        if arch != Arch::Gfx1201 && kernel.rsrc2 >> (7 + n) & 1 != 0 {
            sgprs.push(value);
        }
    }
    sgprs
}

/// A reproducible stream of numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In [-1, 1), with few digits, so that sums and products of some are exact.
    pub(crate) fn small(&mut self) -> f32 {
        (self.next() >> 56) as f32 / 128.0 - 1.0
    }
}
