//! Assembly of a device: each part is given the parts that it uses.

use std::sync::{Arc, PoisonError};

use belfry_abi::pci;
use belfry_abi::regs::gc::SDMA0_STATUS_REG;
use belfry_abi::regs::{Ip, Register as _};
use belfry_isa::lanes::Backend;
use belfry_lock::{Mutex, OnDevice};

use super::session::{AfterStores, Session};
use super::{Gpu, Resources};
use crate::blocks::{
    Athub, Gc, GcCore, GcPorts, Mmhub, Nbif, Osssys, Psp, ResetRequest, Sdma, Smu, SmuPorts, Smuio, Umc,
};
use crate::chip::Chip;
use crate::config::GpuConfig;
use crate::cp::{CpEnv, KernelReach};
use crate::doorbell::{DoorbellWatch, Doorbells};
use crate::error::Error;
use crate::firmware::{FirmwareList, Ports};
use crate::interrupt::{Interrupts, Sources};
use crate::memory::{Hive, Memory};
use crate::own_bars::OwnBars;
use crate::pci::{ConfigSpace, Function, SharedControl};
use crate::queue::{HqdBanks, Partitions};
use crate::record::Recording;
use crate::regs::{Block, RegisterFile, Windows};
use crate::runner::{self, Runner, RunnerPorts};
use crate::sdma::{Movers, RingNotice};
use crate::shader::{ShaderConfig, ShaderEngine};
use crate::stats::Counters;
use crate::threads::Wake;
use crate::time::Clock;
use crate::tools::{Chosen, Tools};
use crate::vm::{Contexts, FrameBuffer, WalkCounter};

impl Gpu {
    /// Makes a device and starts its threads.
    ///
    /// # Errors
    ///
    /// A configuration out of range, regions of the wrong size, or threads that cannot be started.
    pub fn new(config: GpuConfig, resources: Resources) -> Result<Arc<Self>, Error> {
        let unrecorded = config.checks_host_path().then(Recording::nowhere);
        if let Some(recording) = config.record.clone().or(unrecorded) {
            return Self::new_recorded(config, resources, &recording);
        }
        if config.explorer.is_some() {
            return Self::new_explored(config, resources);
        }
        let clock = Clock::new(&config.time);
        let gpu = Self::assemble(config, resources, clock, None)?;
        gpu.place_tables();
        gpu.start()
    }

    /// Starts the thread of an assembled device.
    pub(super) fn start(self) -> Result<Arc<Self>, Error> {
        let _on = self.on_device();
        let thread = runner::spawn(&self.runner).map_err(Error::Thread)?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(Arc::new(self))
    }

    /// Assembles a device with this clock, in operations of a session if there is one. The device does
    /// nothing yet.
    pub(super) fn assemble(
        config: GpuConfig,
        resources: Resources,
        clock: Clock,
        session: Option<Session>,
    ) -> Result<Self, Error> {
        config.validate().map_err(Error::Config)?;
        // Threads that start here are this device's.
        let _on = OnDevice::new(config.number);
        let actual = resources.vram.size() as u64;
        if actual != config.vram_size {
            return Err(Error::VramRegion { expected: config.vram_size, actual });
        }
        let doorbells = Doorbells::new(resources.doorbells)
            .map_err(|actual| Error::DoorbellRegion { expected: pci::DOORBELL_BAR_SIZE, actual })?;
        let doorbells = Arc::new(doorbells);
        let chip: Arc<dyn Chip> = config.chip.chip(config.shape()).into();
        let generation = config.chip.generation;
        let wake = Arc::new(Wake::default());
        let chosen = Chosen {
            trace: config.trace.clone(),
            faults: config.faults.clone(),
            sanitizer: config.sanitizer.clone(),
            profiler: config.profiler.clone(),
            explorer: config.explorer.clone(),
        };
        let tools = Tools::new(chosen, &clock, &wake);
        let counters = Arc::new(Counters::new(tools.clone()));
        let control = Arc::new(SharedControl::default());
        if session.is_none() {
            config.time.wakes(&wake);
        }

        let memory = Memory::new(resources.vram, resources.system).with_hive(config.hive);
        let memory = match &session {
            Some(session) => memory.mirrored(Arc::clone(session.journal())),
            None => memory,
        };
        let memory = Arc::new(if config.checks_host_path() { memory.with_host_path() } else { memory });
        let sink = match &session {
            Some(_) => Arc::new(AfterStores { memory: Arc::clone(&memory), next: resources.interrupts }),
            None => resources.interrupts,
        };
        let walks = Arc::new(WalkCounter::default());
        let size = memory.hive().map_or(memory.vram_size(), Hive::size);
        let frame_buffer = FrameBuffer::new(chip.fb_base(), size);
        let contexts = Arc::new(Contexts::new(
            Arc::clone(&memory),
            (Arc::clone(&walks), tools.clone()),
            frame_buffer,
            generation.pte,
        ));
        let xccs = chip.topology().xccs as u8;
        let hqds = Arc::new(HqdBanks::new(xccs));
        let partitions = Arc::new(Partitions::new(xccs, config.partition));
        let watch = DoorbellWatch::new(Arc::clone(&doorbells), Arc::clone(&counters), tools.clone());
        let watch = Arc::new(watch);
        let interrupts = Arc::new(Interrupts::new(
            sink,
            (config.msix_table, config.interrupt_pin, generation.shader.retry_disable != 0),
            Arc::clone(&counters),
            tools.clone(),
            config.poll_doorbells,
            (Arc::clone(&control), Arc::clone(&doorbells)),
        ));

        // A device that repeats itself exactly does one thing after the other.
        let engines = if config.deterministic.is_some() { 0 } else { chip.sdma_engines() };
        let movers = Arc::new(Movers::new(engines.into()).map_err(Error::Thread)?);
        let remap = generation.register_bar.hdp_remap;
        let own = OwnBars::new((Arc::clone(&doorbells), memory.vram_size()), remap, Arc::clone(&wake));
        let own = Arc::new(own);
        memory.set_own(Arc::clone(&own) as _);
        let windows = Arc::new(Windows::new(&*chip, generation.register_bar));
        let mut blocks: Vec<Box<dyn Block>> = vec![
            Box::new(Athub::new(Arc::clone(&contexts))),
            Box::new(Osssys::new(Arc::clone(&interrupts), Arc::clone(&contexts))),
            Box::new(Nbif::new(
                Arc::clone(&windows),
                Arc::clone(&doorbells),
                Arc::clone(&partitions),
                memory.vram_size(),
            )),
            Box::new(Smuio::new(clock.clone(), chip.vbios())),
            Box::new(Umc::new(tools.faults().corrected())),
            Box::new(Psp::new(Arc::clone(&contexts), Arc::clone(&counters))),
        ];
        let reset_request = Arc::new(ResetRequest::default());
        if let Some(smu) = generation.smu {
            let ports = SmuPorts {
                contexts: Arc::clone(&contexts),
                counters: Arc::clone(&counters),
                reset: Arc::clone(&reset_request),
                time: clock.clone(),
                activity: config.activity.clone(),
                counts_time: session.is_none(),
                number: config.number,
            };
            blocks.push(Box::new(Smu::new(smu, ports)));
        }
        let ring_notice = Arc::new(RingNotice::default());
        for xcc in 0..xccs {
            let ports = GcPorts {
                contexts: Arc::clone(&contexts),
                hqds: Arc::clone(&hqds),
                partitions: Arc::clone(&partitions),
                doorbells: Arc::clone(&doorbells),
                wake: Arc::clone(&wake),
                activity: config.activity.clone(),
                counts_time: session.is_none(),
                movers: Arc::clone(&movers),
                ring_notice: generation.firmware.has_sdma_rings().then(|| Arc::clone(&ring_notice)),
            };
            let core = GcCore {
                xcc,
                topology: chip.topology(),
                has_sdma: chip.dword(Ip::GC, 0, SDMA0_STATUS_REG::AT).is_some(),
                mes_version: generation.firmware.mes().map_or(0, |mes| mes.version),
                resets: generation.resets,
            };
            blocks.push(Box::new(Gc::new(ports, core)));
        }
        for engine in chip.ips().iter().filter(|block| block.ip == Ip::SDMA0) {
            blocks.push(Box::new(Sdma::new(engine.instance, Arc::clone(&movers))));
        }
        for hub in chip.ips().iter().filter(|block| block.ip == Ip::MMHUB) {
            blocks.push(Box::new(Mmhub::new(Arc::clone(&contexts), frame_buffer, hub.instance)));
        }
        let shader = ShaderEngine::new(shader_config(&config, &*chip, (&tools, &walks)), clock.clone());
        let shader = Arc::new(shader.map_err(Error::Shader)?);
        let registers = Arc::new(RegisterFile::new(
            Arc::clone(&chip),
            blocks,
            windows,
            Arc::clone(&memory),
            (Arc::clone(&counters), tools.clone()),
        ));

        let sources = Sources {
            format: &generation.interrupts,
            contexts: Arc::clone(&contexts),
            interrupts: Arc::clone(&interrupts),
            clock: clock.clone(),
            counters: Arc::clone(&counters),
            tools: tools.clone(),
        };
        let waker = Arc::clone(&wake);
        let env = CpEnv {
            clock: clock.clone(),
            interrupts: Arc::new(sources.clone()),
            tools: tools.clone(),
            kernel: Some(KernelReach::new(
                Arc::clone(&registers),
                Arc::clone(&contexts),
                generation.local_register,
            )),
            shader: Arc::clone(&shader),
            wake: Arc::new(move || waker.wake()),
        };
        let firmware = FirmwareList::new(Ports {
            chip: generation,
            sdma_engines: chip.sdma_engines(),
            registers: Arc::clone(&registers),
            contexts: Arc::clone(&contexts),
            hqds: Arc::clone(&hqds),
            partitions,
            doorbells: Arc::clone(&doorbells),
            watch: Arc::clone(&watch),
            interrupts: sources,
            env,
            movers: Arc::clone(&movers),
            ring_notice,
            wake: Arc::clone(&wake),
            counters: Arc::clone(&counters),
            tools: tools.clone(),
            quantum: config.quantum,
        });
        let runner = Runner::new(
            firmware,
            RunnerPorts {
                control: Arc::clone(&control),
                interrupts: Arc::clone(&interrupts),
                doorbells: Arc::clone(&doorbells),
                watch: Arc::clone(&watch),
                wake: Arc::clone(&wake),
                counters: Arc::clone(&counters),
                tools: tools.clone(),
                polls: config.poll_doorbells,
                own: Arc::clone(&own),
                memory: Arc::clone(&memory),
            },
        );
        Ok(Self {
            clock,
            pci: Function::new(ConfigSpace::new(&*chip, &config), control),
            runner: Arc::new(runner),
            thread: Mutex::new(None),
            config,
            chip,
            memory,
            contexts,
            hqds,
            registers,
            doorbells,
            watch,
            interrupts,
            shader,
            movers,
            counters,
            walks,
            wake,
            tools,
            own,
            reset_request,
            session,
        })
    }
}

fn shader_config(
    config: &GpuConfig,
    chip: &dyn Chip,
    (tools, walks): (&Tools, &Arc<WalkCounter>),
) -> ShaderConfig {
    let backend = Backend::detect().with_tier(config.tier).with_matrices(config.matrices);
    let probes = config.sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.checks_kernels());
    ShaderConfig {
        // Effects of waves on two workers, and notes about them, could have different orders.
        workers: if config.deterministic.is_some() || probes { 1 } else { config.workers },
        processors: config.processors.clone().unwrap_or_default(),
        topology: chip.topology(),
        chip: config.chip.generation,
        backend: if config.counts_code { backend.counting() } else { backend },
        kept_code: config.kept_code.clone(),
        deterministic: config.deterministic,
        tools: tools.clone(),
        walks: Arc::clone(walks),
        activity: config.activity.clone(),
    }
}
