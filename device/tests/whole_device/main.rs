//! The device through its front door: configuration space, BARs, rings and memory, as a driver uses them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(unreachable_pub, reason = "one test program, several files")]

mod accesses;
mod alter;
mod bringup;
#[allow(dead_code, reason = "the tests of the sanitizer need more of it")]
mod driver;
mod exclusive;
mod hws;
mod inspect;
mod kernel_queues;
mod kernel_rings;
mod kernels;
mod kiq;
mod pm4;
mod psp;
mod queues;
mod record;
mod save;
mod sdma;
