//! /dev/kvm: opens it, and checks that it has all that this machine needs.

use std::ffi::CStr;

use kvm_ioctls::{Cap, Kvm};

use crate::error::KvmError;

const DEVICE: &CStr = c"/dev/kvm";
/// The only version of the API.
const VERSION: i32 = 12;

/// Opens /dev/kvm, and checks that it has all that this machine needs.
pub(super) fn open() -> Result<Kvm, KvmError> {
    open_at(DEVICE)
}

fn open_at(path: &CStr) -> Result<Kvm, KvmError> {
    let refused =
        |error: kvm_ioctls::Error| KvmError::NoKvm { why: error.to_string(), fix: fix(error.errno()) };
    let kvm = Kvm::new_with_path(path).map_err(refused)?;
    let version = kvm.get_api_version();
    if version != VERSION {
        let why = format!("it answers {version} when asked for its version, which is to be {VERSION}");
        return Err(KvmError::NoKvm { why, fix: "use another mode" });
    }
    for (cap, name) in [
        (Cap::Irqchip, "interrupt controllers"),
        (Cap::Irqfd, "irqfds"),
        (Cap::IrqRouting, "interrupt routing"),
        (Cap::UserMemory, "memory slots"),
        (Cap::Pit2, "timer"),
        (Cap::ImmediateExit, "exit at once"),
    ] {
        if !kvm.check_extension(cap) {
            let why = format!("it has no {name}");
            return Err(KvmError::NoKvm { why, fix: "use a newer kernel, or another mode" });
        }
    }
    Ok(kvm)
}

/// Returns a way to mend an error of opening.
fn fix(errno: i32) -> &'static str {
    match errno {
        libc::EACCES | libc::EPERM => "add yourself to the group that owns it, usually `kvm`",
        libc::ENOENT | libc::ENXIO | libc::ENODEV => {
            "enable virtualisation in the firmware and load kvm_intel or kvm_amd, or use another mode"
        }
        _ => "use another mode",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kvm_is_refused_with_what_to_do() {
        for (path, expected) in
            [(c"/dev/belfry-has-no-such-device", "load kvm_intel or kvm_amd"), (c"/dev/null", "its version")]
        {
            let error = open_at(path).unwrap_err();
            assert!(matches!(error, KvmError::NoKvm { .. }), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(fix(libc::EACCES).contains("group"));
    }
}
