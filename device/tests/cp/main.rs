//! The command processor, the copy engines and the shader engine, on memory made by hand: compiled kernels, no driver.

mod bad_packets;
mod barriers;
mod bench;
mod context;
mod gpus;
mod kernels;
mod pm4;
mod pm4_queue;
mod scratch;
mod sdma;
mod stopping;
