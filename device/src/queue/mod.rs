//! Queues: hardware queue descriptors, their images in memory, and the rings of the kernel's own queues.

mod hqd;
mod kiq;
mod ring;
mod scheduler;

pub(crate) use hqd::{HQD_FIRST, HQD_REGISTERS, Hqd, HqdBanks, HqdId, mqd_from_bytes};
pub(crate) use kiq::{Kiq, MAX_PACKET, Request as KiqRequest, length as packet_length};
pub(crate) use ring::{Ring, seed_doorbell};
pub(crate) use scheduler::{Scheduler, spawn};
