//! Compute partitions: division of a chip's graphics cores (XCCs).
//!
//! Linux `amdgpu_gfx.h`, `enum amdgpu_gfx_partition`; possible divisions of a chip: `aqua_vanjaram.c`,
//! `__aqua_vanjaram_is_valid_mode`, with all of memory as one partition (NPS1).

use core::fmt;

/// A mode of dividing the cores.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ComputePartition {
    /// One partition with all of them.
    #[default]
    Spx = 0,
    /// Two.
    Dpx = 1,
    /// Three.
    Tpx = 2,
    /// Four.
    Qpx = 3,
    /// One for each core.
    Cpx = 4,
}

impl ComputePartition {
    /// Every way, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Spx, Self::Dpx, Self::Tpx, Self::Qpx, Self::Cpx];

    /// Its name, as sysfs has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spx => "SPX",
            Self::Dpx => "DPX",
            Self::Tpx => "TPX",
            Self::Qpx => "QPX",
            Self::Cpx => "CPX",
        }
    }

    /// The way with this name, in letters of either case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// Number of partitions that `xccs` cores have in this mode; `None` if they cannot be divided like this.
    #[must_use]
    pub const fn partitions(self, xccs: u32) -> Option<u32> {
        match self {
            Self::Spx if xccs > 0 => Some(1),
            Self::Dpx if xccs != 0 && xccs.is_multiple_of(4) => Some(2),
            // With one core each it would be the last one.
            Self::Tpx if xccs > 3 && xccs.is_multiple_of(3) => Some(3),
            Self::Qpx if xccs > 4 && xccs.is_multiple_of(4) => Some(4),
            Self::Cpx if xccs > 1 => Some(xccs),
            _ => None,
        }
    }

    /// The mode that divides `xccs` cores into partitions of `in_each` cores.
    #[must_use]
    pub fn of(xccs: u32, in_each: u32) -> Option<Self> {
        let whole = in_each != 0 && xccs.is_multiple_of(in_each);
        Self::ALL.into_iter().find(|mode| whole && mode.partitions(xccs) == Some(xccs / in_each))
    }

    /// The modes in which `xccs` cores can be divided.
    pub fn available(xccs: u32) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |mode| mode.partitions(xccs).is_some())
    }
}

impl fmt::Display for ComputePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ComputePartition::{self, Cpx, Dpx, Qpx, Spx, Tpx};

    #[test]
    fn chips_are_shared_out_as_their_cores_allow() {
        let available = |xccs, expected: &[ComputePartition]| {
            assert!(ComputePartition::available(xccs).eq(expected.iter().copied()), "{xccs}");
        };
        available(8, &[Spx, Dpx, Qpx, Cpx]);
        available(6, &[Spx, Tpx, Cpx]);
        available(4, &[Spx, Dpx, Cpx]);
        available(3, &[Spx, Cpx]);
        available(2, &[Spx, Cpx]);
        available(1, &[Spx]);
        available(0, &[]);
        for xccs in 1..=8 {
            for mode in ComputePartition::available(xccs) {
                let partitions = mode.partitions(xccs).expect("available");
                assert_eq!(ComputePartition::of(xccs, xccs / partitions), Some(mode));
            }
        }
        assert_eq!((ComputePartition::of(8, 3), ComputePartition::of(8, 0)), (None, None));
        assert_eq!((ComputePartition::named("cPx"), ComputePartition::named("NPS1")), (Some(Cpx), None));
    }
}
