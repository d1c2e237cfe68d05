//! Moments that are counted: bytes over links to other devices.

use crate::moments::{At, Moment};
use crate::profile::{LinkCounters, Moved};
use crate::trace::{TraceEvent, Tracer};

/// Counts a moment, and records the counts that it has changed.
pub(super) fn at(links: &LinkCounters, tracer: &Tracer, at: &At<'_>) {
    let Moment::TransferEnds { bytes, from, to, .. } = at.moment else { return };
    let job = at.job.unwrap_or_else(|| tracer.current());
    for (peer, moved) in [(from, Moved::CopiedFrom), (to, Moved::CopiedTo)] {
        let Some(peer) = peer else { continue };
        links.add(peer, moved, bytes);
        let (sums, is_to) = (links.of(peer), moved == Moved::CopiedTo);
        let bytes = if is_to { sums.to_peer() } else { sums.from_peer() };
        tracer.of_job(job, at.owner, TraceEvent::LinkBytes { peer, is_to, bytes });
    }
}
