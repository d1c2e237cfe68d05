//! Resets: of the function by its host, and of the device by its driver.

use super::{Gpu, ResetKind};
use crate::moments::Moment;
use crate::pci::ConfigSpace;
use crate::record::Call;
use crate::sanitize::{Misuse, Rule};
use crate::shader::RunningWaves;
use crate::stats::count;
use crate::trace::Engine;

impl Gpu {
    /// Resets the device: queues gone, registers as at power on, memory kept, discovery table in place.
    pub fn reset(&self, kind: ResetKind) {
        let _on = self.on_device();
        match &self.session {
            None => self.reset_now(kind),
            Some(session) => session.tell(self, &Call::Reset { system: kind == ResetKind::System }),
        }
    }

    pub(super) fn reset_now(&self, kind: ResetKind) {
        log::info!(target: "gpu", "reset {kind:?}");
        self.check_reset();
        self.pci.reset(ConfigSpace::new(&*self.chip, &self.config));
        self.own.follow(&self.pci);
        self.interrupts.control_changed();
        self.reset_blocks();
    }

    /// Resets registers and queues, if a driver has asked the SMU for that (Mode1Reset). The function stays configured, and
    /// memory is kept.
    pub(super) fn obey_driver(&self) {
        if self.reset_request.take() {
            log::info!(target: "gpu", "reset Mode1");
            self.check_reset();
            self.reset_blocks();
        }
    }

    fn reset_blocks(&self) {
        self.tools.tell(|| Moment::Reset.on(Engine::Device));
        count(&self.counters.resets);
        self.runner.reset(|| {
            self.interrupts.reset();
            self.registers.reset();
            self.contexts.reset();
            self.hqds.reset();
            self.doorbells.reset();
            self.place_tables();
        });
    }

    /// Lets the sanitizer, if there is one, check for work that a reset ends.
    fn check_reset(&self) {
        if !self.tools.checks(Rule::ResetBusy) {
            return;
        }
        let running = self.runner.between_passes(|_| self.shader.running_waves(0));
        if let Some(running) = running.filter(|running| running.waves != 0 || running.workgroups_left != 0) {
            let RunningWaves { waves, workgroups_left, .. } = running;
            let found = format!("{waves} waves run, and {workgroups_left} workgroups have not begun");
            self.tools.misused(Misuse::new(Rule::ResetBusy, found));
        }
    }
}
