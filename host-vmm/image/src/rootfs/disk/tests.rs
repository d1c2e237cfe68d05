//! Disks of small trees.

use super::*;

/// A tree with a program directory, and a cache.
fn tree() -> (tempfile::TempDir, Cache, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::at(directory.path().join("cache")).unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::write(tree.join("usr/bin/hello"), b"#!/bin/sh\necho hello from the tree\n").unwrap();
    (directory, cache, tree)
}

fn disk(cache: &Cache, path: &Path) -> Result<RootDisk, RootFsError> {
    Root::Path(path.to_owned()).disk(cache, &Progress::silent())
}

/// Returns true if a block of the image begins with `start`, as that of a file does.
fn has_block(image: &Path, start: &[u8]) -> bool {
    let (mut file, mut data) = (File::open(image).unwrap(), vec![0; 4 << 20]);
    loop {
        let count = io::Read::read(&mut file, &mut data).unwrap();
        if data[..count].chunks(4096).any(|block| block.starts_with(start)) {
            return true;
        }
        if count == 0 {
            return false;
        }
    }
}

#[test]
fn directory_becomes_a_sparse_disk_once_and_again_after_a_change() {
    let (_directory, cache, tree) = tree();
    let first = disk(&cache, &tree).unwrap();
    let meta = fs::metadata(&first.path).unwrap();
    assert!(meta.len() >= ROOM && meta.blocks() * 512 < 64 << 20, "{} blocks", meta.blocks());
    assert!(!check_image(&first.path).unwrap());
    assert!(has_block(&first.path, b"#!/bin/sh\necho hello from the tree\n"));

    let again = disk(&cache, &tree).unwrap();
    assert_eq!(again.path, first.path);
    assert_eq!(fs::metadata(&again.path).unwrap().ino(), meta.ino(), "not made again");

    fs::write(tree.join("usr/bin/other"), b"more").unwrap();
    let changed = disk(&cache, &tree).unwrap();
    assert_ne!(changed.path, first.path);
    assert!(first.path.exists(), "in use");
    drop((first, again));
    fs::write(tree.join("usr/bin/third"), b"more").unwrap();
    let third = disk(&cache, &tree).unwrap();
    let folder = third.path.parent().unwrap().parent().unwrap();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2, "the first one went, the second is in use");
    assert!(changed.path.exists());
}

#[test]
fn disk_that_cannot_be_made_leaves_nothing_and_says_why() {
    let (_directory, cache, tree) = tree();
    let survey = Survey::of(&tree).unwrap();
    let failing = |script: &str| Tool {
        program: "sh".into(),
        arguments: vec!["-c".to_owned(), script.to_owned(), "mke2fs".to_owned()],
    };
    let target = cache.root().join("target");
    let attempt = |script: &str| {
        publish(&target, &|partial| fill(&failing(script), &tree, &survey, &partial.join(IMAGE), &mut || ()))
            .unwrap_err()
            .to_string()
    };
    let error = attempt("echo 'mke2fs: No space left on device while writing' >&2; exit 1");
    for part in ["no space", "BELFRY_CACHE"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = attempt("echo 'ext2fs_mkdir: broken' >&2; exit 3");
    assert!(error.contains("broken") && error.contains(tree.to_str().unwrap()), "{error}");
    assert_eq!(fs::read_dir(cache.root()).unwrap().count(), 0);
}

#[test]
fn what_is_no_root_file_system_is_refused_by_name() {
    let (directory, cache, _tree) = tree();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("empty/lib")).unwrap();
    fs::write(at("text"), b"no image").unwrap();
    fs::write(at("zeros"), [0; 4096]).unwrap();
    for (name, why) in [
        ("empty", "neither bin nor usr/bin"),
        ("text", "no ext4 file system"),
        ("zeros", "no ext4 file system"),
        ("missing", "No such file"),
    ] {
        let error = disk(&cache, &at(name)).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(name), "{error}");
    }
    let error = Root::Path("/dev/null".into()).check(&cache).unwrap_err().to_string();
    assert!(error.contains("neither a directory nor a file"), "{error}");
    let error = Root::Named("rocky".into()).check(&cache).unwrap_err().to_string();
    assert!(error.contains("rocky") && error.contains("rocm-sid"), "{error}");
}

#[test]
fn own_images_are_taken_as_they_are() {
    let (directory, cache, _tree) = tree();
    let mut ext4 = vec![0; 8192];
    ext4[0x438..0x43a].copy_from_slice(&MAGIC);
    for (name, content, qcow2) in [("a.ext4", ext4, false), ("a.qcow2", QCOW2_MAGIC.to_vec(), true)] {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        let disk = disk(&cache, &path).unwrap();
        assert_eq!((disk.path, disk.qcow2), (path, qcow2));
    }
    assert!(!cache.root().join("disks").exists());
}
