//! BO_LIST: what submissions use, named beforehand (`amdgpu_bo_list.c`).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::kfd::drm::{
    AMDGPU_BO_LIST_OP_CREATE, AMDGPU_BO_LIST_OP_DESTROY, AMDGPU_BO_LIST_OP_UPDATE, BoListEntry, BoListIn,
};
use zerocopy::FromZeros;

use super::Call;
use crate::errno::{Errno, Result};
use crate::os::{Backing, Os};

/// Entries of a list.
const MAX_ENTRIES: u32 = 128 << 10;
/// Lists of a file.
const MAX_LISTS: usize = 4096;

/// Memory that submissions use.
pub(crate) type List = Arc<Vec<Arc<dyn Backing>>>;

/// The lists of a file.
#[derive(Default)]
pub(crate) struct Lists {
    by_handle: BTreeMap<u32, List>,
}

impl Lists {
    /// A list.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none of this handle.
    pub(crate) fn get(&self, handle: u32) -> Result<List> {
        self.by_handle.get(&handle).cloned().ok_or(Errno::ENOENT)
    }
}

/// Reads the entries that a structure names.
///
/// # Errors
///
/// `EINVAL` for too many, `EFAULT`, `ENOENT` for a bad handle, `ENOMEM`.
pub(super) fn read<O: Os>(call: &Call<'_, O>, args: &BoListIn) -> Result<List> {
    if args.bo_number > MAX_ENTRIES {
        return Err(Errno::EINVAL);
    }
    let os = call.client.device().hw.os();
    let mut list = Vec::new();
    list.try_reserve_exact(args.bo_number as usize).map_err(|_| Errno::ENOMEM)?;
    // Entries of another size are cut, or extended with zeros.
    let size = (args.bo_info_size as usize).min(size_of::<BoListEntry>());
    for index in 0..u64::from(args.bo_number) {
        let offset = index * u64::from(args.bo_info_size);
        let at = args.bo_info_ptr.checked_add(offset).ok_or(Errno::EFAULT)?;
        let mut entry = BoListEntry::new_zeroed();
        os.copy_from_user(&mut zerocopy::IntoBytes::as_mut_bytes(&mut entry)[..size], at)?;
        list.push(call.file.lookup(entry.bo_handle)?);
    }
    Ok(Arc::new(list))
}

/// BO_LIST; returns the list's handle.
///
/// # Errors
///
/// `EINVAL` for an unknown operation, `ENOENT` for a bad handle, and as [`read`].
pub(super) fn change<O: Os>(call: &Call<'_, O>, args: &BoListIn) -> Result<u64> {
    let new = match args.operation {
        AMDGPU_BO_LIST_OP_CREATE | AMDGPU_BO_LIST_OP_UPDATE => Some(read(call, args)?),
        AMDGPU_BO_LIST_OP_DESTROY => None,
        _ => return Err(Errno::EINVAL),
    };
    let mut state = call.client.lock();
    let lists = &mut state.lists.by_handle;
    let (handle, old) = match new {
        None => (0, lists.remove(&args.list_handle)),
        Some(list) if args.operation == AMDGPU_BO_LIST_OP_UPDATE => {
            let place = lists.get_mut(&args.list_handle).ok_or(Errno::ENOENT)?;
            (args.list_handle, Some(core::mem::replace(place, list)))
        }
        Some(_) if lists.len() >= MAX_LISTS => return Err(Errno::ENOMEM),
        Some(list) => {
            let handle = (1..).find(|handle| !lists.contains_key(handle)).ok_or(Errno::ENOMEM)?;
            lists.insert(handle, list);
            (handle, None)
        }
    };
    // Dropped without the lock: memory may go with it.
    drop(state);
    drop(old);
    Ok(handle.into())
}
