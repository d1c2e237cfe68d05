//! Global wave sync: barriers and semaphores across workgroups.
//!
//! The wave only stops with its request; the owner of the resources decides when it continues.

use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::vector::lane::first_active;
use crate::inst::Op;
use crate::registers::slot;
use crate::wave::Wave;

/// Resources there are (`GWS_RSRC` has six bits).
pub const GWS_RESOURCES: u32 = 64;

/// Request of a `ds_gws_*` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GwsRequest {
    /// The operation.
    pub op: GwsOp,
    /// Resource, less than [`GWS_RESOURCES`]: `M0[21:16]` plus the instruction's offset.
    pub resource: u8,
    /// The data register's value in the first active lane; 0 for operations without one.
    pub value: u32,
}

/// Operations of the global wave sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsOp {
    /// `ds_gws_init`: sets the resource's counter.
    Init,
    /// `ds_gws_barrier`: waits for as many others as the counter says, and sets it for the next barrier.
    Barrier,
    /// `ds_gws_sema_v`: adds one to the counter.
    SemaV,
    /// `ds_gws_sema_br`: adds the value to the counter.
    SemaBr,
    /// `ds_gws_sema_p`: waits until the counter is not 0, and takes one.
    SemaP,
    /// `ds_gws_sema_release_all`: lets all that wait go on.
    SemaReleaseAll,
}

impl GwsOp {
    const ALL: [GwsOp; 6] =
        [GwsOp::Init, GwsOp::Barrier, GwsOp::SemaV, GwsOp::SemaBr, GwsOp::SemaP, GwsOp::SemaReleaseAll];

    /// The operation of an instruction, if it is one of these.
    pub(crate) fn of(op: Op) -> Option<GwsOp> {
        Some(match op {
            Op::DS_GWS_INIT => GwsOp::Init,
            Op::DS_GWS_BARRIER => GwsOp::Barrier,
            Op::DS_GWS_SEMA_V => GwsOp::SemaV,
            Op::DS_GWS_SEMA_BR => GwsOp::SemaBr,
            Op::DS_GWS_SEMA_P => GwsOp::SemaP,
            Op::DS_GWS_SEMA_RELEASE_ALL => GwsOp::SemaReleaseAll,
            _ => return None,
        })
    }
}

/// The resource that an element of [`request`] goes to.
pub(crate) fn resource(w: &Wave, d: &Di) -> u8 {
    ((w.s[slot::M0] >> 16).wrapping_add(d.imm) % GWS_RESOURCES) as u8
}

/// `ds_gws_*`: `aux` is the operation, `src[0]` the data register, `imm` the offset.
pub(crate) fn request(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let resource = resource(w, d);
    let value = d.src[0].lane(w, first_active(w));
    let op = GwsOp::ALL[d.aux as usize % GwsOp::ALL.len()];
    m.stop(Stop::GlobalWaveSync(GwsRequest { op, resource, value }))
}
