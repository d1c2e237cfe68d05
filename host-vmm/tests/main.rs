//! The binary as its users have it: one program, so that it is linked once.

mod again;
mod bench_sdma;
mod chips;
mod cli;
mod code_cache;
mod explore;
mod files;
#[path = "gdb/main.rs"]
mod gdb;
mod hosted_snapshot;
mod hung;
mod image;
mod inspect;
mod inspect_ui;
mod install_driver;
mod installed;
mod kvm;
mod matrix;
mod perfetto;
mod record;
mod root;
mod snapshot;
mod trace;
