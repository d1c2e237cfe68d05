//! Why the packet processor stopped a queue.

use std::fmt;

use belfry_abi::aql::inactive;

/// The value of a queue's inactive signal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StopCode(pub u64);

/// Bits and their meaning.
const NAMES: &[(u64, &str)] = &[
    (inactive::DIM_INVALID, "the grid's dimensions are not valid"),
    (inactive::GROUP_SEGMENT_INVALID, "the workgroup wants more LDS than there is"),
    (inactive::CODE_INVALID, "the kernel object is not valid"),
    (inactive::PACKET_FORMAT_INVALID, "a packet's format is not valid"),
    (inactive::WORKGROUP_SIZE_INVALID, "the workgroup is too large"),
    (inactive::REGISTER_INVALID, "the kernel wants more registers than there are"),
    (inactive::VENDOR_PACKET_UNSUPPORTED, "a vendor packet is not supported"),
    (inactive::APERTURE_VIOLATION, "a wave accessed memory it may not"),
    (inactive::ILLEGAL_INSTRUCTION, "a wave ran into an illegal instruction"),
    (inactive::TRAP, "a wave trapped"),
];

impl StopCode {
    /// The queue waits for scratch memory.
    pub(super) fn is_scratch_request(self) -> bool {
        self.0 & !inactive::SCRATCH_WAVE32 == inactive::SCRATCH_NEEDED
    }

    /// A memory fault may be reported beside it.
    pub(super) fn may_be_memory_fault(self) -> bool {
        self.0 & (inactive::APERTURE_VIOLATION | inactive::TRAP | inactive::CODE_INVALID) != 0
    }
}

impl fmt::Display for StopCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut first = true;
        for (bit, name) in NAMES {
            if rest & bit != 0 {
                rest &= !bit;
                write!(f, "{}{name}", if first { "" } else { ", " })?;
                first = false;
            }
        }
        if first {
            f.write_str("for an unknown reason")?;
        }
        write!(f, " (code {:#x})", self.0)
    }
}

impl fmt::Debug for StopCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StopCode({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_and_numbered() {
        assert_eq!(StopCode(0x40).to_string(), "the workgroup is too large (code 0x40)");
        assert_eq!(
            StopCode(0x4000_0008).to_string(),
            "the kernel object is not valid, a wave ran into an illegal instruction (code 0x40000008)"
        );
        assert_eq!(StopCode(0x1000).to_string(), "for an unknown reason (code 0x1000)");
    }

    #[test]
    fn scratch_requests_are_told_from_errors() {
        assert!(StopCode(0x1).is_scratch_request());
        assert!(StopCode(0x401).is_scratch_request());
        assert!(!StopCode(0x400).is_scratch_request());
        assert!(!StopCode(0x9).is_scratch_request());
    }
}
