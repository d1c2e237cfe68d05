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

/// Pages that move together by default, as a power of two (`svm_range_set_default_attributes`).
const DEFAULT_GRANULARITY: u32 = 9;
/// Most that a range remembers (`svm_range_apply_attrs`).
const MAX_GRANULARITY: u32 = 0x3f;
/// What no range exceeds, where an answer begins.
const ANY_GRANULARITY: u32 = 0xff;

/// What the GPU may do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    No,
    /// Access it, wherever it is.
    Yes,
    /// Access it where it is.
    InPlace,
}

impl Access {
    /// What an attribute of this kind says, if it is about access.
    fn of(kind: u32) -> Option<Self> {
        match kind {
            KFD_IOCTL_SVM_ATTR_ACCESS => Some(Self::Yes),
            KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE => Some(Self::InPlace),
            KFD_IOCTL_SVM_ATTR_NO_ACCESS => Some(Self::No),
            _ => None,
        }
    }
}

/// What is set for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// A GPU's id or a location.
    pub(crate) preferred: u32,
    pub(crate) prefetch: u32,
    pub(crate) granularity: u32,
    /// `KFD_IOCTL_SVM_FLAG_*`.
    pub(crate) flags: u32,
    /// Of the one GPU there is.
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
            access: Access::No,
        }
    }
}

/// Checks attributes to be set.
///
/// # Errors
///
/// `EINVAL` for an unknown kind, and for the id of a GPU there is not.
pub(crate) fn check(gpu_id: u32, list: &[SvmAttribute]) -> Result<()> {
    for &SvmAttribute { kind, value } in list {
        let good = match kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => {
                [KFD_IOCTL_SVM_LOCATION_SYSMEM, KFD_IOCTL_SVM_LOCATION_UNDEFINED, gpu_id].contains(&value)
            }
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => [KFD_IOCTL_SVM_LOCATION_SYSMEM, gpu_id].contains(&value),
            KFD_IOCTL_SVM_ATTR_ACCESS | KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE | KFD_IOCTL_SVM_ATTR_NO_ACCESS => {
                value == gpu_id
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

/// Whether an attribute names a GPU to be told about.
pub(crate) fn asks_about_gpu(attribute: &SvmAttribute) -> bool {
    attribute.kind == KFD_IOCTL_SVM_ATTR_ACCESS
}

/// Whether setting these attributes may change what page tables say.
pub(crate) fn change_mapping(list: &[SvmAttribute]) -> bool {
    list.iter().any(|&SvmAttribute { kind, .. }| {
        Access::of(kind).is_some()
            || matches!(kind, KFD_IOCTL_SVM_ATTR_SET_FLAGS | KFD_IOCTL_SVM_ATTR_CLR_FLAGS)
    })
}

impl Attributes {
    /// Sets attributes that were checked, one after the other.
    pub(crate) fn apply(&mut self, list: &[SvmAttribute]) {
        for &SvmAttribute { kind, value } in list {
            match kind {
                KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => self.preferred = value,
                KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => self.prefetch = value,
                KFD_IOCTL_SVM_ATTR_SET_FLAGS => self.flags |= value,
                KFD_IOCTL_SVM_ATTR_CLR_FLAGS => self.flags &= !value,
                KFD_IOCTL_SVM_ATTR_GRANULARITY => self.granularity = value.min(MAX_GRANULARITY),
                _ => self.access = Access::of(kind).unwrap_or(self.access),
            }
        }
    }

    /// Whether each of these attributes is set already. A prefetch never is: it is to happen again.
    pub(crate) fn have(&self, list: &[SvmAttribute]) -> bool {
        list.iter().all(|&SvmAttribute { kind, value }| match kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => self.preferred == value,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => false,
            KFD_IOCTL_SVM_ATTR_SET_FLAGS => self.flags & value == value,
            KFD_IOCTL_SVM_ATTR_CLR_FLAGS => self.flags & value == 0,
            KFD_IOCTL_SVM_ATTR_GRANULARITY => self.granularity == value,
            _ => Access::of(kind) == Some(self.access),
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

/// What several ranges have in common.
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
    /// Puts the attributes of ranges together; those of no range are the defaults.
    pub(crate) fn of<'a>(ranges: impl Iterator<Item = &'a Attributes>) -> Self {
        ranges
            .fold(None, |common, range| Some(Self::and(common, range)))
            .unwrap_or_else(|| Self::and(None, &Attributes::default()))
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
            // Linux keeps a set of GPUs for each kind of access, so that different kinds have none in common.
            access: if common.access == one.access { one.access } else { Access::No },
        }
    }

    /// Answers a question that was checked by [`check_question`].
    pub(crate) fn answer(&self, attribute: &mut SvmAttribute) {
        match attribute.kind {
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC => attribute.value = self.preferred,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC => attribute.value = self.prefetch,
            KFD_IOCTL_SVM_ATTR_ACCESS => {
                attribute.kind = match self.access {
                    Access::Yes => KFD_IOCTL_SVM_ATTR_ACCESS,
                    Access::InPlace => KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
                    Access::No => KFD_IOCTL_SVM_ATTR_NO_ACCESS,
                }
            }
            KFD_IOCTL_SVM_ATTR_SET_FLAGS => attribute.value = self.flags_all,
            KFD_IOCTL_SVM_ATTR_CLR_FLAGS => attribute.value = !self.flags_any,
            KFD_IOCTL_SVM_ATTR_GRANULARITY => attribute.value = self.granularity,
            _ => {}
        }
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
