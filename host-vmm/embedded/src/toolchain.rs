//! Path that changes when a toolchain gets another component. The build watches it while a component is missing.

use std::path::{Path, PathBuf};

/// The path that changes when a component comes to the toolchain that would have a target's library in the folder
/// `library` (`rustc --print target-libdir`): rustup's list of components, or the folder of targets. Both are there,
/// also without the target.
pub(crate) fn changes_with_components(library: &Path) -> Option<PathBuf> {
    // .../lib/rustlib/TARGET/lib
    let targets = library.ancestors().nth(2)?;
    let list = targets.join("components");
    [list, targets.to_owned()].into_iter().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_changes_with_components_is_there() {
        let sysroot = tempfile::tempdir().unwrap();
        let targets = sysroot.path().join("lib/rustlib");
        let library = targets.join("x86_64-unknown-none/lib");
        assert_eq!(changes_with_components(&library), None);
        assert_eq!(changes_with_components(Path::new("")), None);
        fs::create_dir_all(&targets).unwrap();
        assert_eq!(changes_with_components(&library).as_deref(), Some(targets.as_path()));
        fs::write(targets.join("components"), "cargo\n").unwrap();
        assert_eq!(changes_with_components(&library), Some(targets.join("components")));
    }
}
