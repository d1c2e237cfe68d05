//! The user interface of the KFD node and of the render node, as `include/uapi/linux/kfd_ioctl.h` (1.17, Linux 6.12) and
//! `include/uapi/drm/amdgpu_drm.h` publish it.
//!
//! Structures keep the header's field names; their own names drop the `kfd_ioctl_` prefix. All are little endian, as the
//! processor is.

#![allow(
    missing_debug_implementations,
    reason = "zerocopy's derives add helper types per field, which the lint sees when the structure comes from a macro"
)]

/// Declares a uapi structure: fields with their byte offsets, and the size, all asserted.
macro_rules! uapi_struct {
    (
        $(#[$meta:meta])*
        $name:ident: $size:literal {
            $($(#[$field_meta:meta])* $field:ident @ $offset:literal: $ty:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        const _: () = assert!(core::mem::size_of::<$name>() == $size);
        $(const _: () = assert!(core::mem::offset_of!($name, $field) == $offset);)*
    };
}

pub mod aperture;
pub mod criu;
pub mod debug;
pub mod drm;
pub mod event;
pub mod ioctl;
pub mod memory;
pub mod misc;
pub mod mmap;
pub mod queue;
pub mod smi;
pub mod svm;
pub mod topology;
