//! Debian's mke2fs out of the cache, as machines without one of their own use it: fetched on first use (some 9 MB).

use std::fs;
use std::process::Command;

use belfry_image::{Cache, Progress, tools};

#[test]
fn packaged_mke2fs_makes_a_file_system_of_a_tree() {
    let cache = Cache::open().unwrap();
    let tool = tools::packaged_mke2fs(&cache, &Progress::new()).unwrap();
    assert!(tool.program.starts_with(cache.root()), "{tool:?}");
    let directory = tempfile::tempdir().unwrap();
    let (tree, image) = (directory.path().join("tree"), directory.path().join("image"));
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::write(tree.join("usr/bin/hello"), b"hello from the tree").unwrap();
    let output = Command::new(&tool.program)
        .args(&tool.arguments)
        .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"])
        .args([&tree, &image])
        .arg("16M")
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let content = fs::read(&image).unwrap();
    assert_eq!(content[0x438..0x43a], 0xef53_u16.to_le_bytes());
    assert!(content.chunks(1024).any(|block| block.starts_with(b"hello from the tree")));
}
