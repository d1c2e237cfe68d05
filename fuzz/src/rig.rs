//! A device that works on the calling thread only, with its memory between guards; made once of each chip, and reset for every
//! input.

#![expect(
    unsafe_code,
    reason = "gives the device parts of one mapping, so that what lies between can be guarded"
)]

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use belfry_abi::pci;
use belfry_abi::regs::Register;
use belfry_device::chip::Chip;
use belfry_device::{Gpu, GpuConfig, MsixTable, ResetKind, Resources};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, GuestRegionMmap, MmapRegion};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::chips::{CHOICES, Choice};
use crate::device::{Raised, VRAM};

/// Guest memory: where it is, and bytes.
pub const RAM: [(u64, usize); 3] = [(0x10_0000, 0x8_0000), (0x40_0000, 0x1_0000), (0x60_0000, 0x8_0000)];
/// Bytes of a guard, before, between and after the parts that the device is given.
const GUARD: usize = 4096;
const PATTERN: u8 = 0xa7;
const PROT: i32 = libc::PROT_READ | libc::PROT_WRITE;
const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
/// Most passes without anything left to do at once.
const PASSES: usize = 20_000;

/// A mapping with guards around its parts.
#[derive(Debug)]
struct Guarded {
    mapping: MmapRegion,
    /// Offset and bytes of the parts that the device is given.
    parts: Vec<(usize, usize)>,
}

impl Guarded {
    fn new(sizes: &[usize]) -> Self {
        let total = sizes.iter().map(|size| size + GUARD).sum::<usize>() + GUARD;
        let mapping = MmapRegion::build(None, total, PROT, FLAGS).expect("memory");
        let mut parts = Vec::new();
        let mut at = GUARD;
        for &size in sizes {
            parts.push((at, size));
            at += size + GUARD;
        }
        let guarded = Self { mapping, parts };
        for (at, bytes) in guarded.guards().zip([[PATTERN; GUARD]; 8]) {
            // SAFETY: a guard lies in the mapping, and no other code uses it.
            unsafe { guarded.host(at).copy_from_nonoverlapping(bytes.as_ptr(), GUARD) };
        }
        guarded
    }

    fn guards(&self) -> impl Iterator<Item = usize> {
        std::iter::once(0).chain(self.parts.iter().map(|(at, size)| at + size))
    }

    fn host(&self, at: usize) -> *mut u8 {
        self.mapping.as_ptr().wrapping_add(at)
    }

    /// A part, for the device.
    fn part(&self, nth: usize) -> MmapRegion {
        let (at, size) = self.parts[nth];
        // SAFETY: the part lies in the mapping, which the rig keeps for as long as the process runs.
        unsafe { MmapRegion::build_raw(self.host(at), size, PROT, FLAGS) }.expect("a part of the mapping")
    }

    /// Clears the parts.
    fn clear(&self) {
        for &(at, size) in &self.parts {
            // SAFETY: the range is private anonymous memory of the mapping: it reads as zeros afterwards.
            let result = unsafe { libc::madvise(self.host(at).cast(), size, libc::MADV_DONTNEED) };
            assert_eq!(result, 0, "memory can be cleared");
        }
    }

    fn check(&self, what: &str) {
        for at in self.guards() {
            // SAFETY: a guard lies in the mapping, and nothing is allowed to write it.
            let guard = unsafe { std::slice::from_raw_parts(self.host(at), GUARD) };
            let first = guard.iter().position(|&byte| byte != PATTERN);
            assert_eq!(first, None, "the device wrote outside of {what}, at {at:#x}");
        }
    }
}

/// The rig of the chip that the input at hand has chosen.
pub static RIG: Chosen = Chosen(AtomicUsize::new(0));

static RIGS: [OnceLock<Rig>; CHOICES] = [const { OnceLock::new() }; CHOICES];

/// The rig of the chip with this number, made when it is first asked for.
fn rig(nth: usize) -> &'static Rig {
    let nth = nth % CHOICES;
    RIGS[nth].get_or_init(|| Rig::new(Choice::of(nth as u8)))
}

/// Choice of one of the rigs.
#[derive(Debug)]
pub struct Chosen(AtomicUsize);

impl Chosen {
    /// Switches to the rig of another chip, as at power on.
    pub fn choose(&self, chip: Choice) {
        self.0.store(chip.nth, Ordering::Relaxed);
        self.gpu.resume();
        self.reset();
    }

    /// Makes all rigs now that are made when they are first used otherwise.
    pub fn make_all(&self) {
        (0..CHOICES).for_each(|nth| _ = rig(nth));
    }
}

impl Deref for Chosen {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        rig(self.0.load(Ordering::Relaxed))
    }
}

/// The device and its memory.
#[derive(Debug)]
pub struct Rig {
    /// Its chip.
    pub choice: Choice,
    chip: Box<dyn Chip>,
    /// The device.
    pub gpu: Arc<Gpu>,
    /// Its interrupts.
    pub raised: Arc<Raised>,
    /// Guest memory, as the device has it at first.
    pub ram: GuestMemoryMmap,
    /// Guest memory as the device has it now.
    pub system: GuestMemoryAtomic<GuestMemoryMmap>,
    memory: Guarded,
    vram: Guarded,
    doorbells: Guarded,
}

impl Rig {
    /// A device as at power on.
    fn new(choice: Choice) -> Self {
        let memory = Guarded::new(&RAM.map(|(_, size)| size));
        let vram = Guarded::new(&[VRAM as usize]);
        let doorbells = Guarded::new(&[pci::DOORBELL_BAR_SIZE as usize]);
        let region = |nth: usize| {
            GuestRegionMmap::new(memory.part(nth), GuestAddress(RAM[nth].0)).expect("a range of addresses")
        };
        let ram =
            GuestMemoryMmap::from_regions(vec![region(0), region(1), region(2)]).expect("ranges in order");
        let raised = Arc::new(Raised::default());
        let system = GuestMemoryAtomic::new(ram.clone());
        let resources = Resources {
            vram: vram.part(0),
            doorbells: doorbells.part(0),
            system: system.clone(),
            interrupts: raised.clone(),
        };
        let config = GpuConfig {
            chip: choice.model,
            cus: choice.shape.cus,
            xccs: choice.shape.xccs,
            vram_size: VRAM,
            workers: 1,
            msix_table: MsixTable::Host,
            quantum: std::time::Duration::ZERO,
            deterministic: Some(1),
            ..GpuConfig::default()
        };
        let gpu = Gpu::new(config, resources).expect("a device");
        gpu.work_on_caller();
        let chip = choice.model.chip(choice.shape);
        Self { choice, chip, gpu, raised, ram, system, memory, vram, doorbells }
    }

    /// Back to power on, with all memory zero.
    pub fn reset(&self) {
        // Nothing works meanwhile but this thread. The doorbells are the reset's to clear.
        self.set_memory(&self.ram);
        self.memory.clear();
        self.vram.clear();
        self.gpu.reset(ResetKind::System);
        self.raised.take();
    }

    /// Replaces guest memory.
    pub fn set_memory(&self, memory: &GuestMemoryMmap) {
        self.system.lock().expect("nobody panics with it").replace(memory.clone());
        self.gpu.memory_changed();
    }

    /// Checks everything that must hold after any input.
    pub fn check(&self) {
        self.memory.check("guest memory");
        self.vram.check("VRAM");
        self.doorbells.check("the doorbells");
        let errors = self.gpu.stats().errors.len();
        assert!(errors < 256, "{errors} kinds of errors");
    }

    /// Lets the device work until it has nothing more to do, or waves have had `turns` turns. Returns true if it came
    /// to rest.
    pub fn settle(&self, turns: usize) -> bool {
        let mut turns = turns;
        let mut passes = 0;
        loop {
            while self.gpu.pass() {
                passes += 1;
                assert!(passes < PASSES, "the scheduler never comes to rest");
            }
            if turns == 0 || !self.gpu.turn() {
                return turns > 0;
            }
            turns -= 1;
        }
    }

    /// Reads a register.
    pub fn read(&self, index: u32) -> u32 {
        let mut data = [0; 4];
        self.gpu.bar_read(pci::BAR_REGISTERS, u64::from(index) * 4, &mut data).expect("a register");
        u32::from_le_bytes(data)
    }

    /// Writes a register.
    pub fn write(&self, index: u32, value: u32) {
        self.gpu
            .bar_write(pci::BAR_REGISTERS, u64::from(index) * 4, &value.to_le_bytes())
            .expect("a register");
    }

    /// Writes a register and the one after it.
    pub fn write_pair(&self, index: u32, value: u64) {
        self.write(index, value as u32);
        self.write(index + 1, (value >> 32) as u32);
    }

    /// Place of a register of a block's first instance, as an absolute dword index.
    #[must_use]
    pub fn dword<R: Register>(&self) -> u32 {
        self.dword_of::<R>(0)
    }

    /// Place of a register of any instance, as an absolute dword index.
    #[must_use]
    pub fn dword_of<R: Register>(&self, instance: u8) -> u32 {
        self.chip.dword(R::IP, instance, R::AT).expect("the chip has it")
    }

    /// Registers there is room for.
    #[must_use]
    pub fn registers(&self) -> u32 {
        (self.choice.model.generation.register_bar.size / 4) as u32
    }

    /// Reads a register by its type.
    pub fn get<R: Register>(&self) -> R {
        R::from_bits(self.read(self.dword::<R>()))
    }

    /// Writes a register by its type.
    pub fn set<R: Register>(&self, register: R) {
        self.set_of(0, register);
    }

    /// Writes a register of any instance by its type.
    pub fn set_of<R: Register>(&self, instance: u8, register: R) {
        self.write(self.dword_of::<R>(instance), register.bits());
    }

    /// Writes a doorbell.
    pub fn ring(&self, byte_offset: u64, value: u64) {
        self.gpu.bar_write(pci::BAR_DOORBELLS, byte_offset, &value.to_le_bytes()).expect("a doorbell");
    }

    /// Writes to VRAM.
    pub fn put_vram(&self, at: u64, bytes: &[u8]) {
        self.gpu.bar_write(pci::BAR_VRAM, at, bytes).expect("VRAM");
    }

    /// Writes to guest memory.
    pub fn put<T: IntoBytes + Immutable + ?Sized>(&self, at: u64, value: &T) {
        self.ram.write_slice(value.as_bytes(), GuestAddress(at)).expect("guest memory");
    }

    /// Reads from guest memory.
    #[must_use]
    pub fn take<T: FromBytes + IntoBytes>(&self, at: u64) -> T {
        let mut value = T::new_zeroed();
        self.ram.read_slice(value.as_mut_bytes(), GuestAddress(at)).expect("guest memory");
        value
    }
}
