//! CRIU_OP: rights and arguments as Linux looks at them, then the refusal.

#![expect(unsafe_code, reason = "gives up a right of its own thread")]

use crate::common::{Client, gpu};
use belfry_abi::kfd::criu::*;
use belfry_abi::kfd::ioctl as nr;
use belfry_kfd_hosted::{Errno, HostedProcess, Node};

fn call(client: &Client, mut args: CriuArgs) -> Errno {
    let at = (&raw mut args).cast();
    client.process.ioctl(Node::Kfd, nr::CRIU_OP, at).map(drop).unwrap_err()
}

/// Returns true if the kernel says that this thread may checkpoint processes.
fn may() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << 21 | 1 << 40) != 0
}

/// Gives up all rights of this thread (capset(2)).
fn give_up() {
    let header = [0x2008_0522u32, 0];
    let none = [0u32; 6];
    // SAFETY: both structures have the size that this version of the call says.
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) }, 0);
}

#[test]
fn rights_come_before_arguments_and_arguments_before_the_refusal() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let all = CriuArgs {
        devices: 8,
        bos: 8,
        priv_data: 8,
        priv_data_size: 64,
        num_devices: 1,
        num_bos: 1,
        ..Default::default()
    };
    if may() {
        for (what, args, errno) in [
            ("what it has", CriuArgs { op: KFD_CRIU_OP_PROCESS_INFO, ..all }, Errno::EOPNOTSUPP),
            ("no operation", CriuArgs { op: 5, ..all }, Errno::EINVAL),
            ("no devices", CriuArgs { op: KFD_CRIU_OP_CHECKPOINT, devices: 0, ..all }, Errno::EINVAL),
            ("queues that run", CriuArgs { op: KFD_CRIU_OP_CHECKPOINT, ..all }, Errno::EINVAL),
            ("nothing to go on with", CriuArgs { op: KFD_CRIU_OP_UNPAUSE, ..all }, Errno::EINVAL),
            ("no data", CriuArgs { op: KFD_CRIU_OP_RESTORE, priv_data_size: 0, ..all }, Errno::EINVAL),
            ("no buffer objects", CriuArgs { op: KFD_CRIU_OP_RESTORE, bos: 0, ..all }, Errno::EINVAL),
            ("a process", CriuArgs { op: KFD_CRIU_OP_RESTORE, ..all }, Errno::EOPNOTSUPP),
            ("no process", CriuArgs { op: KFD_CRIU_OP_RESUME, pid: 0x7fff_ffff, ..all }, Errno::EINVAL),
        ] {
            assert_eq!(call(&client, args), errno, "{what}");
        }
        let bare = HostedProcess::open(&gpu).unwrap();
        let mut args = CriuArgs { op: KFD_CRIU_OP_PROCESS_INFO, ..all };
        let at = (&raw mut args).cast();
        assert_eq!(bare.ioctl(Node::Kfd, nr::CRIU_OP, at), Err(Errno::ENODEV), "no VM");
        assert_eq!(bare.ioctl(Node::Kfd, nr::CRIU_OP, 8 as *mut _), Err(Errno::EFAULT));
    }
    give_up();
    for op in 0..6 {
        assert_eq!(call(&client, CriuArgs { op, ..all }), Errno::EACCES, "{op} without the right");
    }
    let at = 8 as *mut _;
    assert_eq!(client.process.ioctl(Node::Kfd, nr::CRIU_OP, at), Err(Errno::EACCES));
}
