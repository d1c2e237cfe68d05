//! The first instructions of the `belfry` binary: a `belfry exec` that was prepared before becomes its program at once.
//!
//! `belfry exec` stands in front of every program of a build or of a test run. Its own preparation takes some
//! microseconds, but the start of the C library, of the standard library and of the binary's tables takes most of a
//! millisecond, more on virtual machines that trap `CPUID`. So the ordinary start leaves a record of what it has found
//! ([`record`]), and the next one with the same options checks the conditions in it by a dozen system calls and
//! replaces itself. In any unusual case, a missing record included, the start goes on to the C library's `_start` with
//! nothing changed.
//!
//! `host-vmm/build.rs` compiles this file to an object of its own and makes `belfry_start` the entry of the binary. The code runs
//! before the binary is relocated: it must not read a pointer that is initialised, nor call a function of the C library, not
//! even `memcpy`. So it uses raw pointers, and compares and copies by loops of its own.
#![no_std]
#![no_builtins]
#![cfg_attr(
    any(belfry_entry, test),
    expect(
        unsafe_code,
        reason = "runs before the C library: system calls, and what the kernel puts on the stack"
    )
)]
#![cfg_attr(
    all(test, not(belfry_entry)),
    expect(dead_code, reason = "becoming a program is for the entry alone; tests/again.rs has it do so")
)]

pub mod record;

#[cfg(any(belfry_entry, test))]
mod again;
#[cfg(any(belfry_entry, test))]
mod entries;
#[cfg(belfry_entry)]
mod entry;
#[cfg(any(belfry_entry, test))]
mod kernel;
#[cfg(any(belfry_entry, test))]
mod text;

#[cfg(test)]
extern crate std;
