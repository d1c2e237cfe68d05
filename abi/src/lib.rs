//! Every layout that two parts of Belfry share, without behaviour; and the [figures](sensors) that both sides show of the card.
//!
//! Hardware names are kept verbatim, so that readers of amdkfd, amdgpu or gem5 find their way. Every layout
//! cites the header and symbol that publish it, and carries constant size and offset assertions.
//!
//! # Glossary
//!
//! - **AQL**: architected queuing language, the 64-byte packets user-mode queues hold ([`aql`]).
//! - **HQD / MQD**: hardware queue descriptor (registers) and memory queue descriptor (its image in memory) ([`mqd`]).
//! - **MES**: micro engine scheduler, the firmware that maps queues on gfx11 ([`mes`]).
//! - **KIQ**: kernel interface queue, the privileged queue that brings the MES ring up ([`pm4`]).
//! - **HIQ / HWS**: hardware interface queue, and the firmware that maps queues on gfx9 by its packets ([`pm4`]).
//! - **IH**: interrupt handler, a ring of 32-byte entries in memory, with one MSI-X vector ([`ih`]).
//! - **SDMA**: system DMA, the copy engines and their queues ([`sdma`]).
//! - **PSP**: platform security processor: loads the firmware of the other blocks ([`psp`]).
//! - **SMU**: system management unit: clocks, power and temperatures ([`smu`]).
//! - **GPUVM / VMID / PASID**: GPU virtual memory, the 4-bit context that it runs under, and the process that
//!   it belongs to ([`gpuvm`]).
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod word;

pub mod aql;
pub mod discovery;
pub mod doorbell;
pub mod driver_trace;
pub mod gpuvm;
pub mod ih;
pub mod kernel_descriptor;
pub mod kfd;
pub mod mes;
pub mod mqd;
pub mod partition;
pub mod pci;
pub mod pm4;
pub mod psp;
pub mod regs;
pub mod sdma;
pub mod sensors;
pub mod signal;
pub mod smu;
