//! A machine: made from a configuration, run until it ends, then taken apart in order.

pub(super) mod running;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_abi::pci::{DOORBELL_BAR_SIZE, MSIX_VECTORS};
use belfry_bus::{Apertures, ECAM, Function, RootBus, Routes, Vectors};
use belfry_device::{Gpu, GpuConfig, MsixTable, Resources, Stats};
use belfry_snapshot::{SavedMachine, SavedVcpu};
use belfry_virtio::saved::SavedVirtio;
use belfry_virtio::{self as virtio, VirtioFunction};
use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, kvm_clock_data, kvm_pit_config};
use kvm_ioctls::VmFd;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::acpi::Tables;
use super::board::{Board, COM1_IRQ, Line};
use super::config::{HUGE_PAGE, HugePages};
use super::console::{Console, ConsoleWriter};
use super::cpuid::{self, Features};
use super::doorbells::{Doorbells, Watcher};
use super::gpu::GpuFunction;
use super::input::Input;
use super::main_loop::{self, Host};
use super::memory::{self, HIGH_RAM, LOW_RAM_END, SharedMemory, VramSource, Window};
use super::signals::Signals;
use super::snapshot::{SavedFunction, SavedPart, Saver, Snapshot, SnapshotError, Whole};
use super::vcpu::gate::Gate;
use super::vcpu::{self, Vcpu};
use super::{boot, host};
use crate::config::{Config, DoorbellMode, SharedFolder};
use crate::device_numbers::{self, CHANNEL_DEVICE};
use crate::ending::{End, Ending};
use crate::error::KvmError;
use crate::gpus;

/// Last address of the low aperture, below ECAM.
const LOW_APERTURE_END: u64 = ECAM - 1;
/// Address of three pages that KVM needs on Intel's processors.
const TSS_ADDRESS: usize = 0xfffb_d000;
/// The first disk's device number; shared folders and the network card follow the disks.
const FIRST_DISK_DEVICE: u8 = 3;

/// Results of a machine.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Reason of its end.
    pub end: End,
    /// Time from the start to the first instruction.
    pub setup: Duration,
    /// Time from the first instruction to the end.
    pub ran: Duration,
    /// Accesses that left the guest.
    pub exits: u64,
    /// The devices' counters at the end.
    pub stats: Stats,
    /// Registers without behaviour, as [`Gpu::unmodelled`] lists them.
    pub unmodelled: Vec<(String, u64, u64)>,
}

/// A machine that has not run yet.
pub struct Machine {
    vcpus: Vec<kvm_ioctls::VcpuFd>,
    board: Arc<Board>,
    gpus: Vec<Arc<Gpu>>,
    watchers: Vec<Watcher>,
    console: Arc<Console>,
    pub(super) ending: Arc<Ending>,
    gate: Shut,
    saver: Arc<Saver>,
    /// True if the device waits to be resumed after it was restored.
    resumed: bool,
    input: Option<File>,
    catch_signals: bool,
    setup: Duration,
    /// Guest memory, kept for as long as vCPUs run.
    memory: GuestMemoryMmap,
    _vm: Arc<VmFd>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("cpus", &self.vcpus.len()).finish_non_exhaustive()
    }
}

/// Closes the gate for good when the machine goes, so that no saver waits for vCPUs to come there.
struct Shut(Arc<Gate>);

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.shut();
    }
}

fn step(what: &'static str) -> impl Fn(io::Error) -> KvmError {
    move |source| KvmError::Setup { what, source }
}

fn kvm_step(what: &'static str) -> impl Fn(kvm_ioctls::Error) -> KvmError {
    move |error| KvmError::Setup { what, source: error.into() }
}

impl Machine {
    /// Makes a machine with a kernel in its memory.
    ///
    /// # Errors
    ///
    /// No KVM, a configuration out of range, a kernel file that is none, or a step of the making that failed.
    pub fn new(config: Config) -> Result<Self, KvmError> {
        Self::assemble(config, None)
    }

    /// Makes a machine that goes on from a saved one. `config` is [`Snapshot::config`] with the host's choices filled
    /// in.
    ///
    /// # Errors
    ///
    /// As [`Machine::new`], a snapshot of another host's processors, and values that no machine has.
    pub fn resume(snapshot: &Snapshot, config: Config) -> Result<Self, KvmError> {
        if let Some(what) = beyond_saving(&config) {
            return Err(SnapshotError::NotResumed(what).into());
        }
        if config.gpus.iter().any(|gpu| gpu.record.is_some()) {
            let text = "a record of a GPU that goes on from a snapshot: a record has it from its beginning";
            return Err(KvmError::Config(text.to_owned()));
        }
        Self::assemble(config, Some(snapshot))
    }

    fn assemble(mut config: Config, snapshot: Option<&Snapshot>) -> Result<Self, KvmError> {
        let started = Instant::now();
        config.check()?;
        let (refused, mode) = (beyond_saving(&config), config.doorbells);
        let kvm = host::open()?;
        let memory = match snapshot {
            Some(Snapshot { file, head, .. }) => {
                memory::restored_ram(file, head.ram).map_err(step("map the guest's memory"))?
            }
            None => memory::ram(config.memory, config.huge_pages).map_err(|source| {
                let pages = config.memory / HUGE_PAGE;
                match config.huge_pages {
                    HugePages::Reserved => KvmError::HugePages { pages, source },
                    _ => KvmError::Setup { what: "get memory for the guest", source },
                }
            })?,
        };
        let entry = snapshot.is_none().then(|| boot::load(&memory, &config)).transpose()?;

        let vm = Arc::new(kvm.create_vm().map_err(kvm_step("create a VM"))?);
        vm.set_tss_address(TSS_ADDRESS).map_err(kvm_step("place KVM's own pages"))?;
        vm.create_irq_chip().map_err(kvm_step("create the interrupt controllers"))?;
        let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..Default::default() };
        vm.create_pit2(pit).map_err(kvm_step("create the timer"))?;
        let slot = memory::map_ram(&vm, &memory).map_err(step("give the VM its memory"))?;

        let routes = Routes::new(Arc::clone(&vm)).map_err(step("route interrupts"))?;
        let line = EventFd::new(EFD_NONBLOCK).map_err(step("create an eventfd"))?;
        vm.register_irqfd(&line, COM1_IRQ).map_err(kvm_step("connect the serial port's interrupt"))?;

        let features = Features::new(&kvm).map_err(kvm_step("ask for the processor's features"))?;
        let apertures = apertures(config.memory, features.address_bits());
        if snapshot.is_none() {
            Tables { cpus: config.cpus, apertures }.write(&memory)?;
        }
        let mut functions: BTreeMap<u8, Arc<dyn Function>> = BTreeMap::new();
        let (mut gpus, mut watchers, mut part) = (Vec::new(), Vec::new(), None);
        let configs = GpuConfig::of_machine(config.links, std::mem::take(&mut config.gpus));
        let count = configs.len();
        for (at, gpu) in configs.into_iter().enumerate() {
            let number = device_numbers::of_gpu(at, count);
            let slot = slot + at as u32 * Device::SLOTS;
            let device = Device::new((gpu, number), (mode, snapshot), (&vm, slot), &memory, &routes)?;
            functions.insert(number, Arc::new(device.function));
            gpus.push(device.gpu);
            watchers.extend(device.watcher);
            // A machine with several is not saved.
            part = part.or(Some(device.part));
        }
        Gpu::connect(&gpus.iter().map(|gpu| &**gpu).collect::<Vec<_>>())
            .map_err(|error| KvmError::Config(format!("{} GPUs: {error}", gpus.len())))?;
        let saved = snapshot.map(|snapshot| &*snapshot.state.virtio);
        let devices = virtio_devices(&mut config)?;
        if saved.is_some_and(|saved| {
            !saved.iter().map(|saved| saved.number).eq(devices.iter().map(|made| made.0))
        }) {
            return Err(
                SnapshotError::Devices("the guest channel is another program's, or there is none").into()
            );
        }
        let mut virtio = Vec::new();
        for (at, (number, device)) in devices.into_iter().enumerate() {
            let saved = saved.and_then(|saved| saved.get(at));
            let part = virtio_function((number, device), saved, &vm, &memory, &routes)?;
            functions.insert(number, part.0);
            virtio.push(part.1);
        }
        let bus = RootBus::new(apertures, functions);
        if snapshot.is_none() {
            bus.assign().map_err(step("find addresses for the BARs"))?;
        }

        let ending = Arc::new(Ending::new().map_err(step("create an eventfd"))?);
        let console = Console::new().map_err(step("create an eventfd"))?;
        let writer = ConsoleWriter(Arc::clone(&console));
        let twin = line.try_clone().map_err(step("create an eventfd"))?;
        let saved = snapshot.map(|snapshot| &snapshot.state);
        let board = saved.map(|saved| &saved.board);
        let board = Board::new(bus, writer, Line(line), Arc::clone(&ending), board);
        let board = Arc::new(board.map_err(step("make the board"))?);

        let mut vcpus = Vec::new();
        for number in 0..config.cpus {
            let vcpu = vm.create_vcpu(number.into()).map_err(kvm_step("create a vCPU"))?;
            let cpuid = features.of(number, config.cpus).map_err(kvm_step("describe the processors"))?;
            vcpu.set_cpuid2(&cpuid).map_err(kvm_step("set the processor's features"))?;
            if config.host_clock {
                vcpu::follow_host_clock(&vcpu).map_err(step("give a vCPU the host's time"))?;
            }
            match saved.and_then(|saved| saved.vcpus.get(usize::from(number))) {
                Some(saved) => {
                    same_processor(saved, &vcpu).map_err(kvm_step("ask for a vCPU's features"))??;
                    vcpu::restore(&vcpu, saved).map_err(kvm_step("set the registers of a saved vCPU"))?;
                }
                None => vcpu::set_msrs(&vcpu).map_err(kvm_step("set a vCPU's registers"))?,
            }
            vcpus.push(vcpu);
        }
        match (entry, saved) {
            (Some(entry), _) => {
                boot::enter(&vcpus[0], entry).map_err(kvm_step("set the first vCPU's registers"))?;
            }
            (None, Some(saved)) => restore_vm(&vm, saved).map_err(kvm_step("set interrupts and timers"))?,
            (None, None) => {}
        }
        let msrs = kvm.get_msr_index_list().map_err(kvm_step("ask for the processor's registers"))?;
        let gate = Arc::new(Gate::new(vcpus.len(), msrs.as_slice().to_vec()));
        let saver = Saver::new(Whole {
            vm: Arc::clone(&vm),
            gate: Arc::clone(&gate),
            board: Arc::clone(&board),
            memory: memory.clone(),
            line: twin,
            gpu: part,
            mode,
            virtio,
            refused,
        });
        Ok(Self {
            vcpus,
            board,
            gate: Shut(gate),
            saver: Arc::new(saver),
            resumed: snapshot.is_some(),
            gpus,
            watchers,
            console,
            ending,
            input: config.input,
            catch_signals: config.catch_signals,
            setup: started.elapsed(),
            memory,
            _vm: vm,
        })
    }

    /// Returns the first GPU, if the machine has one.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.gpus.first()
    }

    /// Returns all GPUs, in the order in which the guest finds them.
    pub fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus
    }

    /// Returns the saver of this machine, for use while it runs.
    pub fn saver(&self) -> Arc<Saver> {
        Arc::clone(&self.saver)
    }

    /// Returns the guest's memory; a handle to it outlives the machine.
    pub(super) fn memory(&self) -> GuestMemoryMmap {
        self.memory.clone()
    }

    /// Runs until the guest or `limit` ends it; `output` gets what the guest writes to its serial port.
    ///
    /// # Errors
    ///
    /// Threads that cannot be started, or a main loop that fails.
    pub fn run(mut self, limit: Duration, output: &mut dyn FnMut(&[u8])) -> Result<Outcome, KvmError> {
        let signals = self.catch_signals.then(Signals::catch).transpose().map_err(step("catch signals"))?;
        let input = self.input.take().map(Input::new).transpose().map_err(step("take the terminal"))?;
        let started = Instant::now();
        if self.resumed {
            self.gpus.iter().for_each(|gpu| gpu.resume());
        }
        let vcpus: Vec<Vcpu> = (0u8..)
            .zip(std::mem::take(&mut self.vcpus))
            .map(|(number, vcpu)| {
                let ends = (Arc::clone(&self.ending), Arc::clone(&self.gate.0));
                Vcpu::start(vcpu, number, Arc::clone(&self.board), ends)
            })
            .collect::<io::Result<_>>()
            .map_err(step("start a vCPU"))?;
        let host =
            Host { board: &self.board, console: &self.console, ending: &self.ending, input, signals, output };
        let looped = main_loop::run(host, limit);
        let ran = started.elapsed();
        self.console.close();
        drop(vcpus);
        self.watchers.clear();
        self.gpus.iter().for_each(|gpu| gpu.stop());
        output(&self.console.take());
        looped?;
        let end = self.ending.reason().unwrap_or(End::Timeout(limit));
        let (stats, unmodelled) = gpus::totals(self.gpus.iter().map(|gpu| &**gpu));
        Ok(Outcome { end, setup: self.setup, ran, exits: self.board.exits(), stats, unmodelled })
    }
}

/// A GPU, connected to its machine.
struct Device {
    gpu: Arc<Gpu>,
    function: GpuFunction,
    watcher: Option<Watcher>,
    part: SavedPart,
}

impl Device {
    /// Slots of the VM that a GPU takes: for VRAM, and for pages of doorbells.
    const SLOTS: u32 = 1 + Doorbells::SLOTS;

    /// Makes a GPU with a device number, which takes slots of the VM from `slot` on.
    fn new(
        (config, number): (GpuConfig, u8),
        (doorbells, snapshot): (DoorbellMode, Option<&Snapshot>),
        (vm, slot): (&Arc<VmFd>, u32),
        memory: &GuestMemoryMmap,
        routes: &Arc<Routes>,
    ) -> Result<Self, KvmError> {
        let config =
            GpuConfig { msix_table: MsixTable::Device, interrupt_pin: true, poll_doorbells: false, ..config };
        config.validate().map_err(belfry_device::Error::Config)?;
        let vram = match snapshot {
            Some(Snapshot { file, head, .. }) => VramSource::restored(file, head.vram),
            None => VramSource::new(config.vram_size),
        };
        let (vram, region) = vram.map_err(step("get memory for VRAM"))?;
        let bells = SharedMemory::new("belfry-doorbells", DOORBELL_BAR_SIZE)
            .map_err(step("get memory for doorbells"))?;
        let map = |memory: &SharedMemory| memory.map().map_err(step("map device memory"));
        let vectors: Arc<Vectors> = routes.vectors(number, MSIX_VECTORS).map_err(step("route interrupts"))?;
        let interrupts = vectors.clone();
        let resources = Resources {
            vram: region,
            doorbells: map(&bells)?,
            system: GuestMemoryAtomic::new(memory.clone()),
            interrupts,
        };
        let saved = snapshot.and_then(|snapshot| snapshot.gpu.as_ref());
        let gpu = match saved {
            Some(saved) => Gpu::restore(saved, config, resources).map_err(SnapshotError::Device)?,
            None => Gpu::new(config, resources)?,
        };
        let doorbells = Doorbells::new(doorbells, vm, &gpu, &bells, slot + 1);
        let doorbells = doorbells.map_err(step("set the doorbells up"))?;
        let watcher = doorbells.as_ref().map(Doorbells::start).transpose();
        let watcher = watcher.map_err(step("start a thread"))?;
        let view = || vram.view(&gpu).map_err(step("map device memory"));
        let window = Window::of_vram(Arc::clone(vm), slot, view()?);
        let part = SavedPart {
            gpu: Arc::clone(&gpu),
            doorbells: doorbells.clone(),
            vectors: Arc::clone(&vectors),
            vram: view()?,
        };
        let function = GpuFunction::new(Arc::clone(&gpu), vectors, window, doorbells, saved.is_some());
        Ok(Self { gpu, function, watcher, part })
    }
}

/// Returns the name of a part of the machine that no snapshot can hold, if there is one.
fn beyond_saving(config: &Config) -> Option<&'static str> {
    [
        (config.gpus.len() > 1, "several GPUs"),
        (!config.shares.is_empty(), "shared folders"),
        (config.network.is_some(), "a network card"),
        (config.huge_pages == HugePages::Reserved, "memory of reserved huge pages"),
    ]
    .into_iter()
    .find_map(|(has, what)| has.then_some(what))
}

/// Refuses a vCPU that was saved on a processor of another kind.
fn same_processor(
    saved: &SavedVcpu,
    vcpu: &kvm_ioctls::VcpuFd,
) -> Result<Result<(), SnapshotError>, kvm_ioctls::Error> {
    let cpuid = vcpu.get_cpuid2(KVM_MAX_CPUID_ENTRIES)?;
    Ok(match cpuid::difference(&saved.cpuid, cpuid.as_slice()) {
        None => Ok(()),
        Some(leaf) => Err(SnapshotError::Processor { leaf }),
    })
}

/// Restores interrupt controllers and timers.
fn restore_vm(vm: &VmFd, saved: &SavedMachine) -> Result<(), kvm_ioctls::Error> {
    saved.chips.iter().try_for_each(|chip| vm.set_irqchip(chip))?;
    vm.set_pit2(&saved.pit)?;
    // The snapshot's host time is not restored: the guest's clock has stood still since.
    vm.set_clock(&kvm_clock_data { clock: saved.clock.clock, ..Default::default() })
}

/// A paravirtual device, and its number on the root bus.
type Numbered = (u8, Box<dyn virtio::Device>);

/// Makes the paravirtual devices of a machine, by their device numbers.
fn virtio_devices(config: &mut Config) -> Result<Vec<Numbered>, KvmError> {
    let mut devices: Vec<Numbered> = Vec::new();
    if let Some(stream) = config.channel.take() {
        let channel = virtio::Console::new(belfry_channel::PORT, stream).map_err(step("use the channel"))?;
        devices.push((CHANNEL_DEVICE, Box::new(channel)));
    }
    let mut rest: Vec<Box<dyn virtio::Device>> = Vec::new();
    for (at, disk) in config.disks.iter().enumerate() {
        rest.push(Box::new(virtio::Block::new(disk, at)?));
    }
    let files = if config.shares.is_empty() { 0 } else { virtio::files_for(config.shares.len()) };
    for SharedFolder { tag, path, read_only } in &config.shares {
        let share = virtio::Share::new(tag, path, *read_only, files)
            .map_err(|source| KvmError::Share { path: path.clone(), source })?;
        rest.push(Box::new(share));
    }
    if let Some(stream) = config.network.take() {
        rest.push(Box::new(virtio::Network::new(stream).map_err(step("use the network"))?));
    }
    devices.extend((FIRST_DISK_DEVICE..).zip(rest));
    Ok(devices)
}

/// Makes a function of a virtio device.
fn virtio_function(
    (number, device): Numbered,
    saved: Option<&SavedVirtio>,
    vm: &Arc<VmFd>,
    memory: &GuestMemoryMmap,
    routes: &Arc<Routes>,
) -> Result<(Arc<dyn Function>, SavedFunction), KvmError> {
    let failed = step("start a virtio device");
    let vectors =
        routes.vectors(number, VirtioFunction::vectors(&*device)).map_err(step("route interrupts"))?;
    let sink = Arc::clone(&vectors);
    let function =
        VirtioFunction::new(device, number, memory.clone(), sink, Some(Arc::clone(vm))).map_err(&failed)?;
    let function = match saved {
        Some(saved) => function.restored(saved).map_err(SnapshotError::Virtio)?,
        None => function,
    };
    let function = Arc::new(function.start().map_err(failed)?);
    let part = SavedFunction { number, function: Arc::downgrade(&function), vectors };
    Ok((function, part))
}

/// Returns the address ranges for devices: between RAM and the interrupt controllers, and above all RAM.
fn apertures(memory: u64, address_bits: u32) -> Apertures {
    let high = HIGH_RAM + memory.saturating_sub(LOW_RAM_END);
    let end = 1u64 << address_bits.clamp(33, 46);
    Apertures([(LOW_RAM_END, LOW_APERTURE_END), (high.next_multiple_of(1 << 30), end - 1)])
}

#[cfg(test)]
mod tests;
