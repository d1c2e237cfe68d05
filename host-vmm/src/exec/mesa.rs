//! Mesa's OpenCL (rusticl) in another root: it has no device at all until a variable names a driver.

use std::ffi::OsStr;
use std::path::Path;

/// The variable that names the drivers that rusticl may use.
pub(super) const DRIVERS: &str = "RUSTICL_ENABLE";
/// Mesa's driver of AMD's GPUs.
const DRIVER: &str = "radeonsi";
/// File by which OpenCL programs find rusticl.
const VENDOR: &str = "etc/OpenCL/vendors/rusticl.icd";

/// Returns the value of [`DRIVERS`] for programs in a root with rusticl; `None` where there is none, and where the user has
/// set the variable, be it to nothing.
pub(super) fn drivers_of_rusticl(root: &Path, own: Option<&OsStr>) -> Option<&'static str> {
    (own.is_none() && root.join(VENDOR).exists()).then_some(DRIVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_of_rusticl_is_named_where_it_is_and_the_user_has_not_chosen() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(drivers_of_rusticl(root.path(), None), None, "no rusticl");
        let vendor = root.path().join(VENDOR);
        std::fs::create_dir_all(vendor.parent().unwrap()).unwrap();
        std::fs::write(vendor, "libRusticlOpenCL.so.1\n").unwrap();
        assert_eq!(drivers_of_rusticl(root.path(), None), Some("radeonsi"));
        for own in ["llvmpipe", ""] {
            assert_eq!(drivers_of_rusticl(root.path(), Some(OsStr::new(own))), None, "{own:?}");
        }
    }
}
