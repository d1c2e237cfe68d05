//! Everything a guest is made of: packages from Debian, the kernel module, the initramfs; cached by content.

pub mod artifacts;
pub mod bare_metal;
mod boot_record;
pub mod c_headers;
pub mod cache;
pub mod cpio;
pub mod dkms;
pub mod fetch;
pub mod firmware;
pub mod freshness;
pub mod guest;
pub mod kasan;
pub mod module;
pub mod module_files;
mod obtain;
pub mod packed;
pub mod parts;
pub mod prepare;
pub mod programs;
pub mod progress;
pub mod prune;
pub mod rootfs;
pub mod tools;

pub use artifacts::{Kernel, KernelHeaders, Qemu, RustSources};
pub use boot_record::BootRecord;
pub use cache::{Cache, CacheError, Found};
pub use fetch::FetchError;
pub use freshness::Freshness;
pub use guest::{GuestImage, InitramfsFile};
pub use parts::{AbsentPart, Driver, Part, Parts};
pub use prepare::{ImageError, prepare, prepare_stock, with_root};
pub use progress::{Progress, Step};
pub use rootfs::{RootFs, RootFsError};
