//! The memory hubs: VM contexts and the engines that invalidate their translations.
//!
//! Both hubs have the same registers; engines run in the GC hub's contexts.

use belfry_abi::regs::Register;
use belfry_abi::regs::gc::{
    GCMC_VM_FB_LOCATION_BASE, GCMC_VM_FB_LOCATION_TOP, GCMC_VM_FB_OFFSET, GCVM_CONTEXT0_CNTL,
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, GCVM_INVALIDATE_ENG0_ACK, GCVM_INVALIDATE_ENG0_REQ,
    GCVM_INVALIDATE_ENG0_SEM,
};
use belfry_abi::regs::mmhub::{MMVM_INVALIDATE_ENG0_ACK, MMVM_INVALIDATE_ENG0_REQ, MMVM_INVALIDATE_ENG0_SEM};

use crate::vm::{FrameBuffer, Tables, VMIDS};

/// Invalidation engines of a hub.
const ENGINES: u32 = 18;

/// What a register of the hubs is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HubRegister {
    /// Reading it takes the semaphore, which is always free.
    Semaphore,
    /// A request to forget translations.
    Request,
    /// The answer: every VMID asked for, at once.
    Acknowledge {
        /// Where the request is.
        request: u32,
    },
    /// Page tables of a GC hub context.
    Context(u8, TablesField),
    /// The frame buffer's place, which concerns VMID 0.
    FrameBuffer(FrameBufferField),
}

/// Which part of a context's tables a register holds; `bool`: the upper half.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TablesField {
    Cntl,
    Base(bool),
    Start(bool),
    End(bool),
}

impl TablesField {
    pub(super) fn read(self, tables: &Tables) -> u32 {
        let half = |value: u64, upper: bool| if upper { (value >> 32) as u32 } else { value as u32 };
        match self {
            Self::Cntl => tables.cntl,
            Self::Base(upper) => half(tables.base, upper),
            Self::Start(upper) => half(tables.start, upper),
            Self::End(upper) => half(tables.end, upper),
        }
    }

    pub(super) fn write(self, tables: &mut Tables, value: u32) {
        let (field, upper) = match self {
            Self::Cntl => {
                tables.cntl = value;
                return;
            }
            Self::Base(upper) => (&mut tables.base, upper),
            Self::Start(upper) => (&mut tables.start, upper),
            Self::End(upper) => (&mut tables.end, upper),
        };
        *field = if upper {
            u64::from(value) << 32 | *field & 0xffff_ffff
        } else {
            *field & !0xffff_ffff | u64::from(value)
        };
    }
}

/// Which register of the frame buffer's place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FrameBufferField {
    Base,
    Top,
    Offset,
}

impl FrameBufferField {
    pub(super) fn of(self, frame_buffer: &mut FrameBuffer) -> &mut u32 {
        match self {
            Self::Base => &mut frame_buffer.base,
            Self::Top => &mut frame_buffer.top,
            Self::Offset => &mut frame_buffer.offset,
        }
    }
}

/// Classifies a register, or `None` if it is not one the hubs act on.
pub(super) fn classify(index: u32) -> Option<HubRegister> {
    let within = |first: u32, count: u32| index.checked_sub(first).filter(|&at| at < count);
    for (semaphore, request, acknowledge) in [
        (GCVM_INVALIDATE_ENG0_SEM::INDEX, GCVM_INVALIDATE_ENG0_REQ::INDEX, GCVM_INVALIDATE_ENG0_ACK::INDEX),
        (MMVM_INVALIDATE_ENG0_SEM::INDEX, MMVM_INVALIDATE_ENG0_REQ::INDEX, MMVM_INVALIDATE_ENG0_ACK::INDEX),
    ] {
        if within(semaphore, ENGINES).is_some() {
            return Some(HubRegister::Semaphore);
        }
        if within(request, ENGINES).is_some() {
            return Some(HubRegister::Request);
        }
        if let Some(engine) = within(acknowledge, ENGINES) {
            return Some(HubRegister::Acknowledge { request: request + engine });
        }
    }
    let vmids = VMIDS as u32;
    if let Some(vmid) = within(GCVM_CONTEXT0_CNTL::INDEX, vmids) {
        return Some(HubRegister::Context(vmid as u8, TablesField::Cntl));
    }
    for (first, field) in [
        (GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32::INDEX, TablesField::Base as fn(bool) -> TablesField),
        (GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32::INDEX, TablesField::Start),
        (GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32::INDEX, TablesField::End),
    ] {
        if let Some(at) = within(first, 2 * vmids) {
            return Some(HubRegister::Context(at as u8 / 2, field(at & 1 == 1)));
        }
    }
    let field = match index {
        GCMC_VM_FB_LOCATION_BASE::INDEX => FrameBufferField::Base,
        GCMC_VM_FB_LOCATION_TOP::INDEX => FrameBufferField::Top,
        GCMC_VM_FB_OFFSET::INDEX => FrameBufferField::Offset,
        _ => return None,
    };
    Some(HubRegister::FrameBuffer(field))
}
