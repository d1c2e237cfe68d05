//! Attributes of ranges: what is accepted, set and answered (`svm_range_check_attr`, `svm_range_apply_attrs`,
//! `svm_range_is_same_attrs`, `svm_range_get_attr` of `kfd_svm.c`).

use belfry_abi::kfd::svm::{
    KFD_IOCTL_SVM_ATTR_ACCESS, KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
    KFD_IOCTL_SVM_ATTR_GRANULARITY, KFD_IOCTL_SVM_ATTR_NO_ACCESS, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
    KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT,
    KFD_IOCTL_SVM_FLAG_EXT_COHERENT, KFD_IOCTL_SVM_FLAG_GPU_EXEC, KFD_IOCTL_SVM_FLAG_GPU_RO,
    KFD_IOCTL_SVM_FLAG_HOST_ACCESS, KFD_IOCTL_SVM_LOCATION_SYSMEM, KFD_IOCTL_SVM_LOCATION_UNDEFINED,
    SvmAttribute,
};

use crate::asic::PageRights;
use crate::errno::{Errno, Result};
use crate::os::Os;
use crate::process_device::{NodeBits, ProcessNodes};

/// Pages that move together by default, as a power of two (`svm_range_set_default_attributes`).
const DEFAULT_GRANULARITY: u32 = 9;
/// Most that a range remembers (`svm_range_apply_attrs`).
const MAX_GRANULARITY: u32 = 0x3f;
/// Granularity that no range exceeds, where an answer begins.
const ANY_GRANULARITY: u32 = 0xff;

/// Nodes that may access a range, one bit each (`bitmap_access`, `bitmap_aip`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Wherever it is.
    pub(crate) anywhere: NodeBits,
    /// In the place in which it is.
    pub(crate) in_place: NodeBits,
}

impl Access {
    /// None.
    pub(crate) const NONE: Self = Self { anywhere: 0, in_place: 0 };

    /// Returns whether any may.
    pub(crate) fn any(self) -> bool {
        self.all() != 0
    }

    /// All that may.
    pub(crate) fn all(self) -> NodeBits {
        self.anywhere | self.in_place
    }

    /// Returns whether one of these nodes may.
    pub(crate) fn of_any(self, nodes: NodeBits) -> bool {
        self.all() & nodes != 0
    }

    /// The kind of attribute that says what a node may do.
    fn of(self, node: NodeBits) -> u32 {
        if self.anywhere & node != 0 {
            KFD_IOCTL_SVM_ATTR_ACCESS
        } else if self.in_place & node != 0 {
            KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
        } else {
            KFD_IOCTL_SVM_ATTR_NO_ACCESS
        }
    }

    /// A node may do what an attribute of this kind says.
    fn set(&mut self, kind: u32, node: NodeBits) {
        (self.anywhere, self.in_place) = (self.anywhere & !node, self.in_place & !node);
        match kind {
            KFD_IOCTL_SVM_ATTR_ACCESS => self.anywhere |= node,
            KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE => self.in_place |= node,
            _ => {}
        }
    }
}

/// Returns whether attributes of a kind say what a node may do, by its value.
fn is_access(kind: u32) -> bool {
    matches!(
        kind,
        KFD_IOCTL_SVM_ATTR_ACCESS | KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE | KFD_IOCTL_SVM_ATTR_NO_ACCESS
    )
}

/// The bit of a node, by its number in an attribute that was checked.
fn bit_of(number: u32) -> NodeBits {
    1 << (number % NodeBits::BITS)
}

/// Attributes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// A node's id or a location.
    pub(crate) preferred: u32,
    pub(crate) prefetch: u32,
    pub(crate) granularity: u32,
    /// `KFD_IOCTL_SVM_FLAG_*`.
    pub(crate) flags: u32,
    pub(crate) access: Access,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            preferred: KFD_IOCTL_SVM_LOCATION_UNDEFINED,
            prefetch: KFD_IOCTL_SVM_LOCATION_UNDEFINED,
            granularity: DEFAULT_GRANULARITY,
            flags: KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT,
            // Only GPUs that retry faults access what nothing was said about.
            access: Access::NONE,
        }
    }
}

/// Checks attributes to be set; in those about access, the id of a node becomes the process's number of it.
///
/// # Errors
///
/// `EINVAL` for an unknown kind, and for the id of a node there is not.
pub(crate) fn check<O: Os>(nodes: &ProcessNodes<O>, list: &mut [SvmAttribute]) -> Result<()> {
    let is_node = |value: u32| nodes.named(value).is_ok();
    for SvmAttribute { kind, value } in list {
        let good = match *kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => {
                [KFD_IOCTL_SVM_LOCATION_SYSMEM, KFD_IOCTL_SVM_LOCATION_UNDEFINED].contains(value)
                    || is_node(*value)
            }
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => *value == KFD_IOCTL_SVM_LOCATION_SYSMEM || is_node(*value),
            kind if is_access(kind) => {
                *value = nodes.named(*value)?.index;
                true
            }
            KFD_IOCTL_SVM_ATTR_SET_FLAGS | KFD_IOCTL_SVM_ATTR_CLR_FLAGS | KFD_IOCTL_SVM_ATTR_GRANULARITY => {
                true
            }
            _ => false,
        };
        if !good {
            return Err(Errno::EINVAL);
        }
    }
    Ok(())
}

/// Returns whether setting these attributes may change what page tables say.
pub(crate) fn change_mapping(list: &[SvmAttribute]) -> bool {
    list.iter().any(|&SvmAttribute { kind, .. }| {
        is_access(kind) || matches!(kind, KFD_IOCTL_SVM_ATTR_SET_FLAGS | KFD_IOCTL_SVM_ATTR_CLR_FLAGS)
    })
}

impl Attributes {
    /// Returns where a range is to move and where it should be: its prefetch location, and its preferred one.
    pub(crate) fn locations(&self) -> (u32, u32) {
        (self.prefetch, self.preferred)
    }

    /// Sets attributes that were checked, one after the other.
    pub(crate) fn apply(&mut self, list: &[SvmAttribute]) {
        for &SvmAttribute { kind, value } in list {
            match kind {
                KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => self.preferred = value,
                KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => self.prefetch = value,
                KFD_IOCTL_SVM_ATTR_SET_FLAGS => self.flags |= value,
                KFD_IOCTL_SVM_ATTR_CLR_FLAGS => self.flags &= !value,
                KFD_IOCTL_SVM_ATTR_GRANULARITY => self.granularity = value.min(MAX_GRANULARITY),
                kind if is_access(kind) => self.access.set(kind, bit_of(value)),
                _ => {}
            }
        }
    }

    /// Returns whether each of these attributes is set already. A prefetch never is: it is to happen again.
    pub(crate) fn have(&self, list: &[SvmAttribute]) -> bool {
        list.iter().all(|&SvmAttribute { kind, value }| match kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => self.preferred == value,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => false,
            KFD_IOCTL_SVM_ATTR_SET_FLAGS => self.flags & value == value,
            KFD_IOCTL_SVM_ATTR_CLR_FLAGS => self.flags & value == 0,
            KFD_IOCTL_SVM_ATTR_GRANULARITY => self.granularity == value,
            _ => self.access.of(bit_of(value)) == kind,
        })
    }

    /// Rights of pages of system memory in page tables, where the program may write or not (`svm_range_get_pte_flags`).
    pub(crate) fn rights(&self, writable: bool) -> PageRights {
        PageRights {
            readable: true,
            writable: writable && self.flags & KFD_IOCTL_SVM_FLAG_GPU_RO == 0,
            executable: self.flags & KFD_IOCTL_SVM_FLAG_GPU_EXEC != 0,
            system: true,
            uncached: self.flags & (KFD_IOCTL_SVM_FLAG_COHERENT | KFD_IOCTL_SVM_FLAG_EXT_COHERENT) != 0,
        }
    }
}

/// Attributes that several ranges have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    preferred: u32,
    prefetch: u32,
    granularity: u32,
    flags_all: u32,
    flags_any: u32,
    access: Access,
}

impl Common {
    /// Puts the attributes of ranges together; without any range, `unsaid` are all there are.
    pub(crate) fn of<'a>(ranges: impl Iterator<Item = &'a Attributes>, unsaid: &Attributes) -> Self {
        ranges
            .fold(None, |common, range| Some(Self::and(common, range)))
            .unwrap_or_else(|| Self::and(None, unsaid))
    }

    fn and(common: Option<Self>, range: &Attributes) -> Self {
        let one = Self {
            preferred: range.preferred,
            prefetch: range.prefetch,
            granularity: range.granularity.min(ANY_GRANULARITY),
            flags_all: range.flags,
            flags_any: range.flags,
            access: range.access,
        };
        let Some(common) = common else { return one };
        let location = |a, b| if a == b { a } else { KFD_IOCTL_SVM_LOCATION_UNDEFINED };
        Self {
            preferred: location(common.preferred, one.preferred),
            prefetch: location(common.prefetch, one.prefetch),
            granularity: common.granularity.min(one.granularity),
            flags_all: common.flags_all & one.flags_all,
            flags_any: common.flags_any | one.flags_any,
            access: Access {
                anywhere: common.access.anywhere & one.access.anywhere,
                in_place: common.access.in_place & one.access.in_place,
            },
        }
    }

    /// Answers a question that was checked by [`check_question`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for the id of a node there is not.
    pub(crate) fn answer<O: Os>(&self, nodes: &ProcessNodes<O>, attribute: &mut SvmAttribute) -> Result<()> {
        match attribute.kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => attribute.value = self.preferred,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => attribute.value = self.prefetch,
            KFD_IOCTL_SVM_ATTR_ACCESS => {
                attribute.kind = self.access.of(nodes.named(attribute.value)?.bit());
            }
            KFD_IOCTL_SVM_ATTR_SET_FLAGS => attribute.value = self.flags_all,
            KFD_IOCTL_SVM_ATTR_CLR_FLAGS => attribute.value = !self.flags_any,
            KFD_IOCTL_SVM_ATTR_GRANULARITY => attribute.value = self.granularity,
            _ => {}
        }
        Ok(())
    }
}

/// Checks what is asked for.
///
/// # Errors
///
/// `EINVAL` for a kind that is no question.
pub(crate) fn check_question(list: &[SvmAttribute]) -> Result<()> {
    let known = |&SvmAttribute { kind, .. }: &SvmAttribute| {
        matches!(
            kind,
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC
                | KFD_IOCTL_SVM_ATTR_PREFETCH_LOC
                | KFD_IOCTL_SVM_ATTR_ACCESS
                | KFD_IOCTL_SVM_ATTR_SET_FLAGS
                | KFD_IOCTL_SVM_ATTR_CLR_FLAGS
                | KFD_IOCTL_SVM_ATTR_GRANULARITY
        )
    };
    if list.iter().all(known) { Ok(()) } else { Err(Errno::EINVAL) }
}
