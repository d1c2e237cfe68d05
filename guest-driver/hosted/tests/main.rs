//! The hosted driver as clients use it: one program, so that it is linked once.
//!
//! `smi.rs` counts its process's descriptors and `svm.rs` maps addresses again that it has unmapped: each is a program of its own.

mod apu;
mod bad_ioctls;
mod boards;
mod common;
#[path = "common/copies.rs"]
mod copies;
mod criu;
#[path = "dmabuf/main.rs"]
mod dmabuf;
mod dynamic_vgprs;
mod events;
#[path = "common/packets.rs"]
mod packets;
#[path = "partitions/main.rs"]
mod partitions;
mod path;
mod pm4;
mod recovery;
mod render;
mod sdma;
mod several;
#[path = "submit/main.rs"]
mod submit;
mod xnack;
