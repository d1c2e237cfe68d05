//! The memory of an HSA signal.
//!
//! Source: `amd_hsa_signal.h` (`amd_signal_t`, `amd_signal_kind_t`).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `AMD_SIGNAL_KIND_INVALID`.
pub const AMD_SIGNAL_KIND_INVALID: i64 = 0;
/// `AMD_SIGNAL_KIND_USER`: a value programs and the packet processor wait on and change.
pub const AMD_SIGNAL_KIND_USER: i64 = 1;
/// `AMD_SIGNAL_KIND_DOORBELL`: a 64-bit doorbell.
pub const AMD_SIGNAL_KIND_DOORBELL: i64 = -1;
/// `AMD_SIGNAL_KIND_LEGACY_DOORBELL`.
pub const AMD_SIGNAL_KIND_LEGACY_DOORBELL: i64 = -2;

/// A signal: 64 bytes, 64-byte aligned, `amd_signal_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct AmdSignal {
    /// `AMD_SIGNAL_KIND_*`.
    pub kind: i64,
    /// Value, or the address of the doorbell for doorbell signals.
    pub value: i64,
    /// Address of the 64-bit slot that receives `event_id`; 0 if no thread sleeps on this signal.
    pub event_mailbox_ptr: u64,
    /// KFD event to signal.
    pub event_id: u32,
    /// Reserved.
    pub reserved1: u32,
    /// Start of the packet in ticks of the GPU clock (100 MHz).
    pub start_ts: u64,
    /// End of the packet in ticks of the GPU clock.
    pub end_ts: u64,
    /// Address of the `amd_queue_t`, for doorbell signals.
    pub queue_ptr: u64,
    /// Reserved.
    pub reserved3: [u32; 2],
}

/// Offset of [`AmdSignal::value`].
pub const SIGNAL_VALUE_OFFSET: u64 = 8;
/// Offset of [`AmdSignal::event_mailbox_ptr`].
pub const SIGNAL_EVENT_MAILBOX_PTR_OFFSET: u64 = 16;
/// Offset of [`AmdSignal::event_id`].
pub const SIGNAL_EVENT_ID_OFFSET: u64 = 24;
/// Offset of [`AmdSignal::start_ts`].
pub const SIGNAL_START_TS_OFFSET: u64 = 32;
/// Offset of [`AmdSignal::end_ts`].
pub const SIGNAL_END_TS_OFFSET: u64 = 40;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<AmdSignal>() == 64);
    assert!(offset_of!(AmdSignal, value) as u64 == SIGNAL_VALUE_OFFSET);
    assert!(offset_of!(AmdSignal, event_mailbox_ptr) as u64 == SIGNAL_EVENT_MAILBOX_PTR_OFFSET);
    assert!(offset_of!(AmdSignal, event_id) as u64 == SIGNAL_EVENT_ID_OFFSET);
    assert!(offset_of!(AmdSignal, start_ts) as u64 == SIGNAL_START_TS_OFFSET);
    assert!(offset_of!(AmdSignal, end_ts) as u64 == SIGNAL_END_TS_OFFSET);
    assert!(offset_of!(AmdSignal, queue_ptr) == 48);
};
