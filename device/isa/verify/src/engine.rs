//! The engine on one wave, with the state of the reference going in and coming out.

#![expect(unsafe_code, reason = "the address space gives out pointers into its own memory")]

use std::cell::UnsafeCell;

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Env, FaultCause, Lds, Stop};
use belfry_isa::inst::{Arch, Op};
use belfry_isa::lanes::{Backend, BackendKind};
use belfry_isa::mem::{Access, Apertures, Fault, FaultKind, Mapping, Mmu, Tlb};
use belfry_isa::wave::{Wave, WaveInit};

use crate::reference::state::{BASE, PRIVATE, SHARED};
use crate::reference::{End, State};

/// Address of the code.
pub const CODE: u64 = 0x6_0000_0000;
/// Bytes of code.
pub const CODE_SIZE: usize = 8192;
/// Bytes of data at [`BASE`].
pub const DATA_SIZE: usize = 16384;
/// Bytes of LDS.
pub const LDS_SIZE: usize = 4096;
/// Vector registers of a wave.
pub const VGPRS: usize = 64;
/// Instructions a program may take.
pub const BUDGET: u64 = 200_000;

#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// The wave's memory: data and code.
struct Memory {
    data: Box<[UnsafeCell<Page>]>,
    code: Box<[UnsafeCell<Page>]>,
}

// SAFETY: one thread uses an engine.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

// SAFETY: the memory lives as long as the address space, and no reference into it lives while a wave runs.
unsafe impl Mmu for Memory {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        let parts = [(BASE, &self.data, DATA_SIZE, true), (CODE, &self.code, CODE_SIZE, false)];
        for (base, pages, size, writable) in parts {
            let offset = va.wrapping_sub(base);
            let allowed = if writable { access != Access::Execute } else { access == Access::Execute };
            if offset < size as u64 && allowed {
                let host = pages[0].get().cast::<u8>();
                return Ok(Mapping {
                    va: base,
                    len: size as u64,
                    host,
                    writable,
                    executable: !writable,
                    mirrored: false,
                    alone: false,
                });
            }
        }
        Err(Fault::new(va, access, FaultKind::NotPresent))
    }
    fn generation(&self) -> u64 {
        1
    }
    fn context(&self) -> u64 {
        1
    }
}

fn pages(bytes: usize) -> Box<[UnsafeCell<Page>]> {
    (0..bytes / 4096).map(|_| UnsafeCell::new(Page([0; 4096]))).collect()
}

fn write(pages: &[UnsafeCell<Page>], bytes: &[u8]) {
    assert!(bytes.len() <= pages.len() * 4096, "{} bytes do not fit the sandbox", bytes.len());
    // SAFETY: inside the allocation; no wave runs meanwhile.
    unsafe {
        core::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            UnsafeCell::raw_get(pages.as_ptr()).cast(),
            bytes.len(),
        );
    };
}

fn read(pages: &[UnsafeCell<Page>]) -> Vec<u8> {
    let mut bytes = vec![0; pages.len() * 4096];
    // SAFETY: as in `write`.
    unsafe { core::ptr::copy_nonoverlapping(pages[0].get().cast(), bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

/// The engine with one backend.
pub struct Engine {
    memory: Memory,
    wave: Wave,
    lds: Lds,
    tlb: Tlb,
    code: CodeCache,
    epoch: u64,
    unimplemented: Option<Op>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("backend", &self.backend()).finish_non_exhaustive()
    }
}

impl Engine {
    /// One engine for each backend this host has.
    pub fn all(arch: Arch) -> Vec<Engine> {
        Backend::all().map(|backend| Engine::new(arch, backend)).collect()
    }

    /// An engine with that backend.
    pub fn new(arch: Arch, backend: Backend) -> Engine {
        Engine {
            memory: Memory { data: pages(DATA_SIZE), code: pages(CODE_SIZE) },
            wave: Wave::new(&WaveInit::default()),
            lds: Lds::new(0),
            tlb: Tlb::new(),
            code: CodeCache::new(arch, backend),
            epoch: 0,
            unimplemented: None,
        }
    }

    /// Its backend.
    pub fn backend(&self) -> BackendKind {
        self.code.backend().kind()
    }

    /// The operation without semantics that the last run ended with.
    pub fn unimplemented(&self) -> Option<Op> {
        self.unimplemented
    }

    /// Runs `code`, which lies at [`CODE`], from `state`. Returns its end, and the state then.
    pub fn run(&mut self, state: &State, code: &[u8]) -> (End, State) {
        write(&self.memory.data, &state.memory);
        write(&self.memory.code, code);
        self.lds.reset(state.lds.len() as u32);
        self.lds.bytes_mut().copy_from_slice(&state.lds);
        self.wave.restart(&WaveInit {
            arch: state.arch,
            pc: state.pc,
            wave_size: state.wave(),
            exec: state.exec(),
            vgprs: &state.v,
            vgpr_count: state.v.len() as u16,
            accum_offset: if state.facts().is_gfx9 {
                (state.v.len() - state.facts().accumulators) as u16
            } else {
                0
            },
            mode: state.mode,
            scratch_base: state.scratch,
            scratch_size_per_lane: state.scratch_size,
            ..WaveInit::default()
        });
        for (number, value) in (0..128).zip(state.s) {
            self.wave.set_sgpr(number, value);
        }
        self.wave.set_scc(state.scc);
        self.epoch += 1;
        // Regions of earlier programs would pile up.
        if self.epoch.is_multiple_of(64) {
            self.code.clear();
        }
        let mut env = Env {
            mmu: &self.memory,
            tlb: &mut self.tlb,
            code: &mut self.code,
            lds: &mut self.lds,
            apertures: Apertures { shared_base: SHARED, private_base: PRIVATE },
            clock: &|| 0,
            code_epoch: self.epoch,
        };
        let stop = exec::run(&mut self.wave, &mut env, BUDGET);
        self.unimplemented = match &stop {
            Stop::Fault(fault) => match fault.kind {
                FaultCause::Unimplemented { op, .. } => Some(op),
                _ => None,
            },
            _ => None,
        };
        let end = end(&stop);
        let wave = &self.wave;
        let mut after = State {
            v: vec![[0; 64]; state.v.len()],
            s: std::array::from_fn(|number| wave.sgpr(number as u8)),
            scc: wave.scc(),
            pc: wave.pc(),
            mode: wave.mode(),
            trapsts: Some(wave.trapsts()),
            lds: self.lds.bytes().to_vec(),
            memory: read(&self.memory.data),
            ..*state
        };
        let own = after.v.len() - state.facts().accumulators;
        let (registers, accumulators) = after.v.split_at_mut(own);
        for (number, lanes) in (0..).zip(registers) {
            for (lane, value) in (0..state.lanes).zip(lanes) {
                *value = wave.vgpr(number, lane);
            }
        }
        for (number, lanes) in (0..).zip(accumulators) {
            for (lane, value) in (0..state.lanes).zip(lanes) {
                *value = wave.agpr(number, lane);
            }
        }
        (end, after)
    }
}

/// The reference's word for how the wave stopped.
fn end(stop: &Stop) -> End {
    match stop {
        Stop::EndProgram => End::Done,
        Stop::Fault(fault) => match &fault.kind {
            FaultCause::Memory { .. } => End::Memory,
            FaultCause::LdsOutOfRange { .. } | FaultCause::LdsMisaligned { .. } => End::Lds,
            FaultCause::RegisterOutOfRange { .. } => End::Register,
            FaultCause::IllegalInstruction { .. } => End::Illegal,
            FaultCause::Unimplemented { .. } | FaultCause::Image { .. } => End::Unknown,
        },
        other => End::Stop(format!("{other:?}")),
    }
}
