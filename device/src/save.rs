//! Common parts of saving a device: the error of values that no device has, and the forms of types of other
//! crates.

/// A value in a snapshot that no device has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field} cannot be {value:#x}: the snapshot is damaged, take another one")]
pub struct Broken {
    /// Part that has the value.
    pub field: &'static str,
    /// The value.
    pub value: u64,
}

/// Takes a value for which `holds`.
pub(crate) fn check(field: &'static str, value: impl Into<u64>, holds: bool) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { field, value: value.into() }) }
}

/// Limit of counters that only grow: no counter reaches it, and counting on from below does not overflow.
const COUNTED: u64 = 1 << 62;

/// Takes a counter's value.
pub(crate) fn counter(field: &'static str, value: u64) -> Result<u64, Broken> {
    check(field, value, value < COUNTED).map(|()| value)
}

/// Takes a length or a number of things.
pub(crate) fn count(field: &'static str, value: usize, holds: bool) -> Result<(), Broken> {
    check(field, value as u64, holds)
}

/// Doorbells, in dwords.
pub(crate) mod doorbell {
    use belfry_abi::doorbell::DoorbellIndex;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(crate) fn serialize<S: Serializer>(doorbell: &DoorbellIndex, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(doorbell.dwords())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DoorbellIndex, D::Error> {
        u32::deserialize(from).map(DoorbellIndex::from_dwords)
    }
}
