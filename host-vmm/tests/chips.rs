//! The chips of the binary: the ones it has, and the ones it does not.

use std::process::{Command, Output};

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn unknown_chip_is_refused_in_one_line_with_those_that_there_are() {
    for arguments in [
        &["run", "--mode", "hosted", "--chip", "gfx9000"][..],
        &["run", "--mode", "qemu", "--chip", "gfx9000"],
        &["exec", "--chip", "gfx9000", "--", "true"],
        &["serve", "--socket", "/nonexistent/socket", "--chip", "gfx9000"],
    ] {
        let output = belfry(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        let said = text(output.stderr);
        assert_eq!(said, "belfry: there is no chip \"gfx9000\": choose from gfx1100\n", "{arguments:?}");
    }
    let listed = belfry(&["chips"]);
    assert!(listed.status.success() && text(listed.stdout).starts_with("gfx1100  Navi 31"));
    for verb in ["run", "exec", "serve"] {
        assert!(text(belfry(&[verb, "--help"]).stdout).contains("--chip <NAME>"), "{verb}");
    }
}
