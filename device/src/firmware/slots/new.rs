//! Properties of a queue that a driver adds, for all kinds of firmware.

use belfry_abi::doorbell::DoorbellIndex;

use super::Asked;
use crate::queue::Partition;
use crate::vm::{AddressSpace, ShaderMemory};

/// A queue that is added.
#[derive(Clone, Copy, Debug)]
pub(in crate::firmware) struct NewQueue {
    pub(in crate::firmware) doorbell: DoorbellIndex,
    /// Graphics cores that it is for.
    pub(in crate::firmware) partition: Partition,
    pub(in crate::firmware) process: NewProcess,
    /// Key of the gang.
    pub(in crate::firmware) gang: u64,
    pub(in crate::firmware) kind: Kind,
    /// Address of the MQD, in VMID 0.
    pub(in crate::firmware) mqd: u64,
    pub(in crate::firmware) wptr: WritePointer,
    /// The process's trap handler: `SQ_SHADER_TBA` and `SQ_SHADER_TMA`.
    pub(in crate::firmware) trap: (u64, u64),
    /// True if it is alone on the compute pipes, with the global wave sync.
    pub(in crate::firmware) exclusive: bool,
    /// True if it is on no slot until its gang is resumed.
    pub(in crate::firmware) suspended: bool,
    /// True if it stays when all others are taken off.
    pub(in crate::firmware) is_static: bool,
    /// Quanta that it asks for, while others wait for its slot.
    pub(in crate::firmware) asked: Asked,
}

/// The process of a queue that is added.
#[derive(Clone, Copy, Debug)]
pub(in crate::firmware) struct NewProcess {
    /// Key by which the driver knows it.
    pub(in crate::firmware) key: u64,
    pub(in crate::firmware) pasid: u16,
    /// `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR`.
    pub(in crate::firmware) base: u64,
    /// The rest of its context; `None` if the driver has programmed it for all VMIDs.
    pub(in crate::firmware) shape: Option<Shape>,
    /// `SH_MEM_BASES` and `SH_MEM_CONFIG`; `None` if the driver has programmed them for all VMIDs.
    pub(in crate::firmware) shader: Option<ShaderMemory>,
}

/// Shape of the page tables of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) struct Shape {
    /// `GCVM_CONTEXTn_CNTL`.
    pub(in crate::firmware) cntl: u32,
    /// First and last virtual page, 36 bits each.
    pub(in crate::firmware) range: (u64, u64),
}

/// Kind of a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::firmware) enum Kind {
    /// Queue of the compute pipes.
    Compute,
    /// Queue of an SDMA engine: of this one, or of the one that its MQD names.
    Sdma(Option<u8>),
    /// Queue of the graphics pipes.
    Graphics,
}

/// Place of the write pointer of a queue while the queue is on no hardware slot.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) struct WritePointer {
    /// Address; 0 for none.
    pub(in crate::firmware) address: u64,
    pub(in crate::firmware) whose: Whose,
}

/// Owner of the address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) enum Whose {
    /// VMID 0.
    Kernel,
    /// The process.
    Process,
}

impl WritePointer {
    /// Returns the address space that the address is in.
    pub(super) fn space<'a>(
        self,
        kernel: &'a AddressSpace,
        process: Option<&'a AddressSpace>,
    ) -> Option<&'a AddressSpace> {
        match self.whose {
            Whose::Kernel => Some(kernel),
            Whose::Process => process,
        }
    }
}
