//! The device: bring-up, TLB flushes, recovery, tear-down.

mod card;
mod ecc;
mod fences;
mod part;
mod sleep;
mod system;
mod watches;

pub(crate) use system::SystemLimit;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use belfry_abi::regs::gfx9::athub;
use belfry_abi::regs::gfx9::osssys::IH_RETRY_CAM_ACK;
use belfry_abi::regs::{Register, gc, mmhub, nbio, osssys};

use crate::asic::{PasidTable, VMIDS};
use crate::card::Load;
use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::gart::Gart;
use crate::hw::{Hw, log};
use crate::ih::IhRing;
use crate::kiq::select;
use crate::node::{self, Nodes};
use crate::os::{DeviceInfo, DriverEvent, Function as _, LockRank, Os};
use crate::rate_limit::RateLimits;
use crate::scheduler::{self, Kept, Scheduler};
use crate::smi::Smi;
use crate::sync::Mutex;
use crate::trace::DriverTrace;
use crate::vram::Vram;

/// Bytes that the driver keeps off at the top of VRAM: the discovery table and what firmware owns (2 MiB, as the VBIOS asks).
const VRAM_RESERVED: u64 = 2 << 20;
/// Invalidation engine the driver uses, as amdgpu does for what no ring does.
const INVALIDATE_ENGINE: u32 = 17;
const FLUSH_TIMEOUT_NS: u64 = 1_000_000_000;
/// The processes and files that use devices, as a device sees them.
pub(crate) trait Users<O: Os>: Send + Sync {
    /// The device was reset: all of its users hear of it.
    fn were_reset(&self, device: &Device<O>);

    /// Moves programs' pages out of VRAM until `len` bytes are free, as far as that goes. The caller holds no lock.
    fn make_room(&self, device: &Device<O>, len: u64);

    /// Has the files of the render node look at their work, as that of another one is over.
    fn kick_files(&self, except: u64);

    /// Goes on with the work of a file.
    fn pump(&self, file: u64);

    /// Gives a file an id that the device will know its work by, and a slice of doorbells, until [`Users::dismiss`].
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EAGAIN` while there will be other nodes, `ENOSPC`.
    fn admit(&self, device: &Device<O>, file: u64) -> Result<(u16, u32)>;

    /// Takes both back: nothing of the file's work is left on the device.
    fn dismiss(&self, pasid: u16);

    /// Returns the system memory that programs may have for all devices.
    fn system(&self) -> &SystemLimit;
}

/// One GPU.
pub(crate) struct Device<O: Os> {
    /// Its number in the machine, which no other device has or had.
    pub(crate) number: u32,
    pub(crate) hw: Arc<Hw<O>>,
    /// Of the whole GPU; each node has its part.
    pub(crate) config: Config,
    pub(crate) info: DeviceInfo,
    nodes: Mutex<O, Arc<Nodes>>,
    /// Number of the way to share out graphics cores that sysfs shows the resources of.
    pub(crate) shown_mode: AtomicU32,
    pub(crate) vram: Arc<Vram<O>>,
    pub(crate) gart: Arc<Gart<O>>,
    pub(crate) ih: Mutex<O, Option<IhRing<O>>>,
    pub(crate) users: Arc<dyn Users<O>>,
    pub(crate) limits: RateLimits<O>,
    /// Address watches that processes have, a bit for each.
    pub(crate) watches: AtomicU32,
    pub(crate) smi: Smi<O>,
    scheduler: Mutex<O, Option<Kept>>,
    /// Serialises the invalidation engine.
    flush: Mutex<O, ()>,
    /// Counts recoveries: what was mapped before the last one is gone.
    epoch: AtomicU64,
    /// The scheduler does not answer and the device could not be reset.
    wedged: AtomicBool,
    /// Errors of memory that could not be corrected, as waves and engines told of them.
    pub(crate) uncorrectable: AtomicU64,
    /// Errors that were corrected, as the memory controller had counted them when it was last asked.
    corrected: AtomicU64,
    /// Bytes of system memory behind buffer objects.
    pub(crate) gtt_used: AtomicU64,
    pub(crate) gtt_limit: u64,
    /// Load that the card was found under.
    pub(crate) load: Mutex<O, Load>,
    /// Queue of threads that wait for work of the render node.
    pub(crate) fences: O::WaitQueue,
    /// The driver's own events.
    pub(crate) trace: DriverTrace<O>,
}

impl<O: Os> Device<O> {
    /// Brings the device up from reset.
    pub(crate) fn probe(
        hw: Arc<Hw<O>>,
        config: Config,
        number: u32,
        users: Arc<dyn Users<O>>,
    ) -> Result<Arc<Self>> {
        let device = Self::with_config(hw, config, number, users)?;
        if let Err(error) = device.start() {
            device.stop();
            return Err(error);
        }
        Ok(device)
    }

    /// Says that it was added to the machine, and by which name.
    pub(crate) fn announce(&self) {
        let device = self;
        log!(
            device.hw,
            Info,
            "added device {:x}:{:x}: {}, {} compute units, {} MiB of VRAM, gpu_id {}",
            device.info.vendor_id,
            device.info.device_id,
            device.hw.asic().name,
            device.config.cus,
            device.config.vram_size >> 20,
            device.gpu_id()
        );
    }

    /// Makes everything a device needs of which `config` is known.
    #[inline(never)]
    pub(crate) fn with_config(
        hw: Arc<Hw<O>>,
        config: Config,
        number: u32,
        users: Arc<dyn Users<O>>,
    ) -> Result<Arc<Self>> {
        let info = hw.function().device_info();
        let nodes = Nodes::new(hw.asic(), &info, &config, node::mode_of(&hw), &[])?;
        let vram = Vram::new(hw.clone(), config.vram_size - VRAM_RESERVED)?;
        let gart = Gart::new(hw.clone(), &vram)?;
        let ih = IhRing::new(hw.clone(), &gart)?;
        let scheduler = scheduler::new(&hw, &gart, &nodes)?;
        let gtt_limit = users.system().limit();
        Ok(Arc::new(Self {
            ih: Mutex::new(hw.os(), LockRank::InterruptRing, Some(ih))?,
            users,
            limits: RateLimits::new(hw.os())?,
            watches: AtomicU32::new(0),
            smi: Smi::new(hw.clone())?,
            scheduler: Mutex::new(hw.os(), LockRank::Scheduler, Some(scheduler))?,
            flush: Mutex::new(hw.os(), LockRank::Invalidation, ())?,
            epoch: AtomicU64::new(0),
            wedged: AtomicBool::new(false),
            uncorrectable: AtomicU64::new(0),
            corrected: AtomicU64::new(0),
            gtt_used: AtomicU64::new(0),
            load: Mutex::new(hw.os(), LockRank::RateLimit, Load::new())?,
            gtt_limit,
            fences: hw.os().wait_queue_new()?,
            trace: DriverTrace::new(hw.os())?,
            shown_mode: AtomicU32::new(nodes.mode() as u32),
            nodes: Mutex::new(hw.os(), LockRank::Nodes, nodes)?,
            number,
            hw,
            config,
            info,
            vram,
            gart,
        }))
    }

    /// Programs everything that does not survive a reset; no queue is known afterwards.
    #[inline(never)]
    fn start(&self) -> Result<()> {
        let mut scheduler = self.scheduler.lock();
        self.start_with(scheduler.as_mut().ok_or(Errno::ENODEV)?, Kept::start)
    }

    /// The same, with the scheduler at hand, which is started in its own way.
    #[inline(never)]
    fn start_with(&self, scheduler: &mut Kept, start: fn(&mut Kept) -> Result<()>) -> Result<()> {
        let hw = &self.hw;
        let mut aperture = nbio::RCC_DOORBELL_APER_EN(0);
        aperture.set_bif_doorbell_aper_en(true);
        hw.write(aperture);
        let remap = hw.asic().hdp_remap as u32;
        hw.write(nbio::REMAP_HDP_MEM_FLUSH_CNTL(remap));
        hw.write(nbio::REMAP_HDP_REG_FLUSH_CNTL(remap + 4));
        self.gart.enable();
        if let Some(control) = hw.asic().vm_context {
            self.gart.enable_processes(control);
        }
        self.flush_gart()?;
        self.start_counting();
        for xcc in hw.xccs() {
            for vmid in 0..VMIDS {
                select(&xcc, 0, 0, 0, vmid);
                xcc.write(gc::SH_MEM_BASES(hw.asic().apertures.sh_mem_bases()));
                xcc.write(gc::SH_MEM_CONFIG(hw.asic().sh_mem_config));
            }
            select(&xcc, 0, 0, 0, 0);
            xcc.write(gc::CP_MEC_DOORBELL_RANGE_LOWER(0));
            xcc.write(gc::CP_MEC_DOORBELL_RANGE_UPPER(hw.function().doorbell_size() as u32 - 4));
        }
        if let Some(ih) = self.ih.lock().as_mut() {
            ih.start();
        }
        start(scheduler)
    }

    /// Quiets the device and gives back what it was using. Queues are gone already.
    pub(crate) fn stop(&self) {
        if let Some(mut scheduler) = self.scheduler.lock().take() {
            scheduler.stop();
            // Dropped here, with the rings no longer in use.
        }
        if let Some(ih) = self.ih.lock().take() {
            ih.stop();
        }
        self.gart.disable();
        self.hw.detach();
    }

    /// Address in VMID 0 and length of the scheduler's ring.
    #[cfg(test)]
    pub(crate) fn scheduler_ring(&self) -> (u64, u64) {
        self.scheduler.lock().as_ref().map(|scheduler| scheduler.ring()).unwrap()
    }

    /// Its nodes of this moment; those of a process stay the same.
    pub(crate) fn nodes(&self) -> Arc<Nodes> {
        self.nodes.lock().clone()
    }

    /// Replaces the nodes, which no process has; returns those of before.
    pub(crate) fn set_nodes(&self, nodes: Arc<Nodes>) -> Arc<Nodes> {
        core::mem::replace(&mut *self.nodes.lock(), nodes)
    }

    /// Stops the scheduler, which has no queues, and starts another one in its place; `between` the two, nothing runs.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EIO` when the device is beyond repair, `EBUSY` while it is suspended, and those of the start.
    pub(crate) fn replace_scheduler(&self, new: Kept, between: impl FnOnce()) -> Result<()> {
        let mut scheduler = self.scheduler.lock();
        if self.wedged() {
            return Err(Errno::EIO);
        }
        let current = scheduler.as_mut().ok_or(Errno::ENODEV)?;
        if current.is_suspended() {
            return Err(Errno::EBUSY);
        }
        current.stop();
        *current = new;
        between();
        self.flush_gart()?;
        current.start()
    }

    /// Records an event of a process.
    pub(crate) fn trace(&self, pasid: u16, event: DriverEvent) {
        self.trace.record(self.hw.os(), pasid, event);
    }

    /// Name that user space has for the first node.
    pub(crate) fn gpu_id(&self) -> u16 {
        self.nodes().first().gpu_id
    }

    /// Counts recoveries.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn wedged(&self) -> bool {
        self.wedged.load(Ordering::Acquire)
    }

    /// Runs `request` on the scheduler.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EIO` when the device is beyond repair or was reset since `epoch`, else the request's.
    pub(crate) fn with_scheduler(
        &self,
        epoch: u64,
        request: impl FnOnce(&mut dyn Scheduler) -> Result<()>,
    ) -> Result<()> {
        let mut scheduler = self.scheduler.lock();
        if self.wedged() || self.epoch() != epoch {
            return Err(Errno::EIO);
        }
        match scheduler.as_mut() {
            Some(scheduler) => request(scheduler),
            None => Err(Errno::ENODEV),
        }
    }

    /// Resets the function and brings it up again because the scheduler hangs; all queues and VRAM contents are lost.
    ///
    /// Only the first caller that saw `epoch` does it. Returns whether it did.
    pub(crate) fn recover(&self, epoch: u64) -> bool {
        // The lock keeps other requests out until the device is back, and makes one caller the first.
        let mut scheduler = self.scheduler.lock();
        let first =
            self.epoch.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !first || self.wedged() {
            return false;
        }
        let Some(scheduler) = scheduler.as_mut() else { return true };
        if scheduler.is_suspended() {
            // It is started anew when it is resumed, without the queues that hang.
            log!(self.hw, Error, "the scheduler hangs: the device is resumed without its queues");
            scheduler.forget();
            return true;
        }
        log!(self.hw, Error, "the scheduler hangs: resetting the device");
        self.smi.pre_reset();
        self.corrected_errors();
        if let Err(error) = self.hw.function().reset_function() {
            log!(self.hw, Error, "the function cannot be reset ({error}): the device is wedged");
            self.give_up();
            return true;
        }
        let started = self.start_with(scheduler, Kept::start);
        if let Err(error) = started.or_else(|error| self.start_again(scheduler, error)) {
            log!(self.hw, Error, "the device does not come back ({error}): it is wedged");
            self.give_up();
        } else {
            log!(self.hw, Info, "the device is back after a reset");
            self.smi.post_reset();
        }
        true
    }

    /// Resets the function once more, as it did not come back from the first time.
    #[inline(never)]
    fn start_again(&self, scheduler: &mut Kept, error: Errno) -> Result<()> {
        if self.is_gone() {
            return Err(error);
        }
        log!(self.hw, Error, "the device does not come back ({error}): resetting it again");
        self.hw.function().reset_function()?;
        self.start_with(scheduler, Kept::start)
    }

    /// Returns whether the device is off the bus: the size of its memory reads as all ones then.
    fn is_gone(&self) -> bool {
        self.hw.read::<nbio::RCC_CONFIG_MEMSIZE>().bits() == u32::MAX
    }

    /// Gives the device up. One that is on the bus may still write to what it was given, which is kept from everything
    /// else for that reason.
    fn give_up(&self) {
        self.wedged.store(true, Ordering::Release);
        if self.is_gone() {
            log!(self.hw, Error, "the device is off the bus");
            self.hw.detach();
        }
    }

    /// Recovers the device if a request to the scheduler timed out, and tells all users.
    pub(crate) fn recover_after(&self, epoch: u64, result: Result<()>) {
        if result == Err(Errno::ETIME) && self.recover(epoch) {
            self.users.were_reset(self);
        }
    }

    /// Drops all translations of VMID 0 in both hubs.
    pub(crate) fn flush_gart(&self) -> Result<()> {
        let _engine = self.flush.lock();
        self.invalidate_gc(1)?;
        self.invalidate_mm(1)
    }

    /// Drops all translations of a process, in all VMIDs that the scheduler runs it in.
    pub(crate) fn flush_pasid(&self, pasid: u16) -> Result<()> {
        let _engine = self.flush.lock();
        self.hw.write_barrier();
        let mut vmids = 0;
        for vmid in self.hw.asic().first_kfd_vmid..VMIDS {
            if self.pasid_of(vmid) == u32::from(pasid) {
                vmids |= 1 << vmid;
            }
        }
        if vmids == 0 || !self.hw.alive() {
            return Ok(());
        }
        self.invalidate_gc(vmids)
    }

    /// The process that firmware has given a VMID to; 0 for none.
    fn pasid_of(&self, vmid: u32) -> u32 {
        match self.hw.asic().pasids {
            PasidTable::InterruptHandler => self.hw.read_at::<osssys::IH_VMID_0_LUT>(vmid).pasid(),
            PasidTable::AddressTranslation => {
                let mapping = self.hw.read_at::<athub::ATC_VMID0_PASID_MAPPING>(vmid);
                if mapping.valid() { mapping.pasid() } else { 0 }
            }
        }
    }

    /// Has the hubs of all graphics cores drop translations, and waits for each.
    fn invalidate_gc(&self, vmids: u32) -> Result<()> {
        let hw = &self.hw;
        let mut request = gc::GCVM_INVALIDATE_ENG0_REQ(gc::GCVM_INVALIDATE_ENG0_REQ::RESET);
        request.set_per_vmid_invalidate_req(vmids);
        hw.flush_hdp();
        hw.xccs().for_each(|xcc| xcc.write_at(INVALIDATE_ENGINE, request));
        for xcc in hw.xccs() {
            hw.poll(FLUSH_TIMEOUT_NS, || {
                let done = xcc.read_at::<gc::GCVM_INVALIDATE_ENG0_ACK>(INVALIDATE_ENGINE);
                done.per_vmid_invalidate_ack() & vmids == vmids
            })
            .inspect_err(|_| log!(hw, Error, "timeout waiting for VM flush ACK of VMIDs {vmids:#x}"))?;
        }
        Ok(())
    }

    /// The same, of the hubs of what is outside of the graphics cores.
    fn invalidate_mm(&self, vmids: u32) -> Result<()> {
        let hw = &self.hw;
        let mut request = mmhub::MMVM_INVALIDATE_ENG0_REQ(gc::GCVM_INVALIDATE_ENG0_REQ::RESET);
        request.set_per_vmid_invalidate_req(vmids);
        hw.flush_hdp();
        hw.mm_hubs().for_each(|hub| hub.write_at(INVALIDATE_ENGINE, request));
        for hub in hw.mm_hubs() {
            hw.poll(FLUSH_TIMEOUT_NS, || {
                let done = hub.read_at::<mmhub::MMVM_INVALIDATE_ENG0_ACK>(INVALIDATE_ENGINE);
                done.per_vmid_invalidate_ack() & vmids == vmids
            })
            .inspect_err(|_| log!(hw, Error, "timeout waiting for VM flush ACK of the MM hub"))?;
        }
        Ok(())
    }

    /// Gives an entry of the filter back: it may tell of the page again.
    pub(crate) fn retried(&self, told: u32) {
        self.hw.write(IH_RETRY_CAM_ACK(told));
    }
}
