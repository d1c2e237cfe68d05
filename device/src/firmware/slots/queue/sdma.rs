//! Special parts of SDMA queues: their MQD and their engine. They have no waves to save.

use std::sync::Arc;

use super::Queue;
use crate::chip::SdmaMqdForm;
use crate::firmware::Ports;
use crate::firmware::slots::life::{Activity, Life, Rest, Slot, Wait};
use crate::firmware::slots::{NewQueue, Place, Pool};
use crate::guest_error::GuestError;
use crate::queue::sdma_mqd::{self, SdmaImage};
use crate::queue::{DmaContext, QueueEngine, QueueIdentity};
use crate::sdma::{SdmaConfig, SdmaQueue};
use crate::vm::AddressSpace;

impl Queue {
    /// Reads and checks the MQD of an SDMA queue to be added.
    ///
    /// The driver chooses the engine. It gives the engine's number with the queue, or writes it into the MQD beside the
    /// fields of the hardware. Hardware knows a queue's engine by the doorbell, whose place within the process's slice
    /// belongs to that engine; all of them name one engine.
    pub(in crate::firmware) fn new_sdma(
        form: SdmaMqdForm,
        space: &AddressSpace,
        new: &NewQueue,
        engine: Option<u8>,
    ) -> Result<Self, GuestError> {
        let mqd = SdmaImage { form, space, address: new.mqd }.read()?;
        let engine = engine.map_or(mqd.sdma_engine_id, u32::from);
        let pool = Pool::of_engine(engine).ok_or(GuestError::AddQueueSdma)?;
        let rest = Rest { read_index: mqd.read_pointer(), saved: sdma_mqd::context(&mqd).is_busy() };
        Ok(Self::waiting(new, pool, rest))
    }

    /// Loads the MQD into a hardware queue of an SDMA engine, and runs.
    pub(super) fn map_sdma(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        space: Option<&Arc<AddressSpace>>,
        (engine, queue): (u8, u8),
        (vmid, pasid): (u8, u16),
    ) -> Result<(), GuestError> {
        let life = self.end();
        let Life::Unmapped { rest, .. } = life else {
            self.life = life;
            return Err(GuestError::QueueNotWaiting);
        };
        let space = space.ok_or(GuestError::ProcessWithoutTables)?;
        let mqd = self.image(ports, kernel).read()?;
        let config = SdmaConfig {
            identity: QueueIdentity {
                xcc: self.partition.first,
                me: engine,
                pipe: 0,
                queue,
                vmid,
                pasid: pasid.into(),
                doorbell: self.doorbell,
            },
            ring_base: mqd.ring_base(),
            ring_bytes: sdma_mqd::ring_bytes(&mqd).ok_or(GuestError::MqdRingSize)?,
            rptr_report: mqd.rptr_report(),
            wptr_poll: mqd.wptr_poll(),
            read_index: rest.read_index,
            kernel: false,
        };
        let engine_of_queue =
            SdmaQueue::new(config, Arc::clone(space), &ports.sdma_env(), sdma_mqd::context(&mqd));
        let slot = Slot::now(Place::Sdma { engine, queue }, &ports.env.clock);
        self.life = Life::Mapped { slot, engine: Box::new(engine_of_queue), activity: Activity::Working };
        self.note_mapped(ports, kernel, pasid);
        Ok(())
    }

    /// Ends an engine that has been taken off its slot, and writes its position to the MQD.
    pub(super) fn unmap_sdma(
        &mut self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        mut engine: Box<dyn QueueEngine>,
        activity: Activity,
    ) {
        let (read_index, context) = (engine.read_index(), engine.dma_context().unwrap_or_default());
        engine.stop();
        self.save_sdma(ports, kernel, read_index, &context);
        let wait = if activity == Activity::Idle { Wait::Doorbell } else { Wait::Slot };
        self.life = Life::Unmapped { wait, rest: Rest { read_index, saved: context.is_busy() } };
    }

    pub(super) fn image<'a>(&self, ports: &Ports, space: &'a AddressSpace) -> SdmaImage<'a> {
        SdmaImage { form: ports.chip.sdma.mqd, space, address: self.mqd }
    }

    /// Writes a queue's position to its MQD.
    pub(super) fn save_sdma(
        &self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        read_index: u64,
        context: &DmaContext,
    ) {
        if !kernel.is_some_and(|space| self.image(ports, space).save(read_index, context)) {
            ports.counters.error(
                GuestError::MqdNotSaved,
                format_args!("doorbell={:#x} mqd={:#x}", self.doorbell, self.mqd),
            );
        }
    }
}
