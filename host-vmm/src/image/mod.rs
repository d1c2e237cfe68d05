//! Everything a guest is made of: packages from Debian, the kernel module, the initramfs; cached by content.

pub mod artifacts;
pub mod c_headers;
pub mod cache;
pub mod fetch;
pub mod module;
pub mod progress;

pub use artifacts::{Freshness, Kernel, KernelHeaders, Qemu, RustSources};
pub use cache::{Cache, CacheError};
pub use fetch::FetchError;
pub use progress::{Progress, Step};
