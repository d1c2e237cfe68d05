//! The tools that see the instructions of a dispatch: the sanitizer and the profiler.

use std::sync::Arc;

use belfry_isa::mem::Mmu as _;

use super::Dispatch;
use crate::chip::Generation;
use crate::profile::{self, Profiler, Resources};
use crate::sanitize::{Grid, Look, Sanitizer, Sight};
use crate::tools::Tools;

/// Parts that see the instructions of a dispatch, if there are any.
#[derive(Clone, Copy)]
pub(in crate::shader) struct Probes<'a> {
    pub(in crate::shader) check: Option<&'a Arc<Grid>>,
    pub(in crate::shader) profile: Option<&'a Arc<profile::Launched>>,
}

impl Probes<'_> {
    /// Returns true if there is at least one.
    pub(in crate::shader) fn are_any(&self) -> bool {
        self.check.is_some() || self.profile.is_some()
    }
}

impl Dispatch {
    /// Has its waves checked and counted from now on. Restored dispatches are neither.
    pub(in crate::shader) fn be_probed_by(&mut self, tools: &Tools, chip: &Generation) {
        if let Some(sanitizer) = tools.sanitizer() {
            self.be_checked_by(sanitizer, chip);
        }
        if let Some(profiler) = tools.profiler() {
            self.be_profiled_by(profiler, chip);
        }
    }

    fn be_checked_by(&mut self, sanitizer: &Arc<Sanitizer>, chip: &Generation) {
        let (space, entry) = (self.queue.space().context(), self.launch.entry);
        self.check = {
            let queue = Arc::clone(&self.queue);
            let look = move |va| queue.space().check_page(va);
            let look = self.queue.space().checks_pages().then(|| Box::new(look) as Box<Look>);
            let queue = Arc::clone(&self.queue);
            let is_mapped = move |va| queue.space().waits().is_some() || queue.space().peek(va).is_some();
            let queue = Arc::clone(&self.queue);
            let read_line = move |va| {
                let mut line = [0; 64];
                let location = queue.space().peek(va)?.locate(va)?;
                queue.space().memory().read_bytes(location, &mut line).ok()?;
                Some(line)
            };
            let (sgprs, keeps_stores) = (self.launch.initial_sgprs(), chip.shader.keeps_stores);
            let (is_mapped, read_line) = (Box::new(is_mapped), Box::new(read_line));
            let sight = Sight { look, is_mapped, read_line, sgprs, keeps_stores };
            Grid::new(sanitizer, space, entry, self.number, sight)
        };
    }

    fn be_profiled_by(&mut self, profiler: &Profiler, chip: &Generation) {
        let launch = &self.launch;
        let resources = Resources {
            wave_size: launch.wave_size,
            vgprs: launch.most_vgprs(),
            shared_vgprs: launch.shared_vgprs,
            sgprs: None,
            lds: launch.lds_size,
            scratch: launch.scratch_bytes_per_lane,
            waves: launch.waves_per_workgroup(),
            wgp_mode: launch.wgp_mode,
        };
        let place = (self.queue.space().context(), launch.entry);
        let kernel = profiler.launch(place, &chip.shader, resources);
        self.profile = kernel.map(|kernel| {
            let queue = Arc::clone(&self.queue);
            let reach = move |va| {
                let space = queue.space();
                space.memory().peer_at(space.peek(va)?.locate(va)?)
            };
            let has_peers = self.queue.space().memory().has_peers();
            let reach = has_peers.then(|| Box::new(reach) as Box<profile::Reach>);
            Arc::new(profile::Launched::new(kernel, reach))
        });
    }

    /// Returns the parts that see its waves' instructions.
    pub(in crate::shader) fn probes(&self) -> Probes<'_> {
        Probes { check: self.check.as_ref(), profile: self.profile.as_ref() }
    }
}
