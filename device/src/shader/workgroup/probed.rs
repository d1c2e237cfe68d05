//! Waves whose instructions are seen before they are executed: by the sanitizer, the profiler, or both.

use belfry_isa::exec::{self, About, Env, Probe, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::wave::Wave;

use super::Workgroup;
use crate::profile::{Counting, WaveCounts};
use crate::sanitize::{Group, WaveProbe};
use crate::shader::dispatch::Probes;

/// The sanitizer's probe and the profiler's.
struct Both<'a>(Option<WaveProbe<'a>>, Option<WaveCounts<'a>>);

impl Probe for Both<'_> {
    fn before(&mut self, wave: &Wave, about: &About<'_>, lds: u32) {
        if let Some(check) = &mut self.0 {
            check.before(wave, about, lds);
        }
        if let Some(counts) = &mut self.1 {
            counts.before(wave, about, lds);
        }
    }
}

/// Runs wave `index` of a workgroup under the probes.
pub(super) fn run(
    wave: &mut Wave,
    env: &mut Env<'_>,
    quantum: u64,
    (index, (check, mut profile)): (usize, (Option<&mut Group>, Option<&mut Counting>)),
) -> Stop {
    let check = check.map(|group| WaveProbe { group, wave: index });
    let counts = profile.as_deref_mut().map(|group| WaveCounts { group, wave: index });
    let stop = exec::run_probed(wave, env, quantum, &mut Both(check, counts));
    if let Some(profile) = profile {
        profile.flush();
    }
    stop
}

impl Workgroup {
    /// Removes the probes, for waves that begin here without [`Workgroup::watch`].
    #[inline(always)]
    pub(in crate::shader) fn forget_probes(&mut self) {
        (self.check, self.profile) = (None, None);
    }

    /// Has its waves, which have just started, checked and profiled, if those of the dispatch are.
    pub(in crate::shader) fn watch(&mut self, probes: Probes<'_>, size: WaveSize) {
        let kind = (self.chip.arch, size);
        self.check = probes.check.and_then(|grid| Group::new(grid, kind, self.id, self.count as u32));
        self.profile = probes.profile.map(|kernel| Counting::new(kernel, kind, self.count));
    }
}
