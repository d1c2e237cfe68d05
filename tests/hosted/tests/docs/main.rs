//! Tables in the documentation that follow from the code: each must be as the code gives it.
//!
//! `BLESS=1 cargo test -p belfry-hosted-tests --test hosted docs::` writes them anew.

mod proofs;

use std::fmt::Write as _;
use std::path::Path;

use belfry_abi::kfd::drm::{DRM_COMMANDS, INFO_QUERIES};
use belfry_abi::kfd::ioctl::{COMMANDS, CREATE_QUEUE, ioc_nr, ioc_size};
use belfry_abi::kfd::queue::{
    KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID,
    KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
};
use belfry_abi::pm4::Opcode;
use belfry_abi::sdma::{Op, copy_sub_op};
use belfry_kfd_core::drm::REFUSED_QUERIES;
use belfry_kfd_core::ioctl::{PARTIAL, REFUSED};
use belfry_kfd_core::queue_manager::REFUSED_QUEUE_TYPES;

/// Name of a queue type that may be refused.
fn queue_type(queue_type: u32) -> &'static str {
    match queue_type {
        KFD_IOC_QUEUE_TYPE_COMPUTE => "COMPUTE",
        KFD_IOC_QUEUE_TYPE_SDMA => "SDMA",
        KFD_IOC_QUEUE_TYPE_SDMA_XGMI => "SDMA_XGMI",
        KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => "SDMA_BY_ENG_ID",
        other => panic!("no name for queue type {other}"),
    }
}

/// State of a command in the driver.
fn state(command: u32) -> String {
    if let Some(refused) = REFUSED.iter().find(|refused| refused.command == command) {
        return format!("absent: {:?}, {}", refused.errno, refused.reason);
    }
    let types = REFUSED_QUEUE_TYPES.iter().filter(|_| command == CREATE_QUEUE).map(|refused| {
        format!("type {}: {:?}, {}", queue_type(refused.queue_type), refused.errno, refused.reason)
    });
    let without_effect = PARTIAL.iter().filter(|partial| partial.command == command);
    let missing: Vec<_> = types.chain(without_effect.map(|partial| partial.missing.to_owned())).collect();
    if missing.is_empty() { "built".to_owned() } else { format!("partial: {}", missing.join("; ")) }
}

/// `docs/ioctls.md` as the driver's own tables give it.
fn ioctls() -> String {
    let mut text = String::from(
        "# KFD ioctls\n\n\
         This page gives the state of every command of `/dev/kfd` in the guest driver. A number outside the table is answered `ENOTTY`.\n\
         Commands of an older size are extended with zeros, and the answer is cut to the caller's size.\n\n\
         - *absent*: refused with the error, by a table beside the dispatch.\n\
         - *partial*: runs, without the listed parts: those are refused with an error, or taken without effect.\n\
         - *built*: the driver refuses no part of it as not built.\n\n\
         The last column names a test that shows it, for each type of queue where there is a difference. `thunk::` are cases of\n\
         [the suite](exec-suite.md); the others are in `guest-driver/hosted/tests` and `tests/hosted/tests`.\n\n\
         | number | command | bytes | state | tests |\n| --- | --- | --- | --- | --- |\n",
    );
    for &(name, command) in COMMANDS {
        let (state, tests) = (state(command), proofs::of(name));
        let (number, size) = (ioc_nr(command), ioc_size(command));
        let _ = writeln!(text, "| {number:#04x} | {name} | {size} | {state} | {tests} |");
    }
    text.push_str(
        "\nLinux has no commands for sampling program counters, for the profiler, for streaming performance counters or for\n\
         access to storage. Those numbers (0x83 to 0x87) belong to AMD's own packages of the driver, and are `ENOTTY` here as in Linux.\n\
         So are 0x80 and 0x81, by which ROCr 6.1 shares memory between processes. `belfry exec` serves these two\n\
         ([exec.md](exec.md)). The library of ROCr 7.2.4 calls 0x80 and 0x81, 0x84 (streaming counters), 0x85 (program counters)\n\
         and 0x87 (storage) when a program asks for them. It does not call the profiler: neither 0x86 of AMD's packages\n\
         nor 0x28 of later kernels.\n",
    );
    text
}

/// State of a command of the render node in the driver.
fn render_state(command: u32) -> String {
    if let Some(refused) = belfry_kfd_core::drm::REFUSED.iter().find(|refused| refused.command == command) {
        return format!("absent: {:?}, {}", refused.errno, refused.reason);
    }
    let partial = belfry_kfd_core::drm::PARTIAL.iter().find(|partial| partial.command == command);
    partial.map_or("built".to_owned(), |partial| format!("partial: {}", partial.missing))
}

/// `docs/render-node.md`: the commands as the driver's tables give them, and facts that are not in a table.
fn render_node() -> String {
    let mut text = String::from(
        "# The render node\n\n\
         This page gives the state of every command of amdgpu at `/dev/dri/renderD128` in the guest driver. A number outside the\n\
         table is answered `EINVAL`, as DRM does. [ioctls.md](ioctls.md) explains *absent*, *partial* and *built*.\n\n\
         | number | command | bytes | state |\n| --- | --- | --- | --- |\n",
    );
    for &(name, command) in DRM_COMMANDS {
        let state = render_state(command);
        let _ = writeln!(text, "| {:#04x} | {name} | {} | {state} |", ioc_nr(command), ioc_size(command));
    }
    text.push_str(
        "\nDRM's own commands are VERSION, GEM_CLOSE, PRIME_HANDLE_TO_FD, PRIME_FD_TO_HANDLE, GET_CAP and those of syncobjs. A\n\
         guest's kernel answers all others itself. Hosted and under `belfry exec`, MODE_GETRESOURCES of the node for displays\n\
         (`card0`) says that there are none, for programs that look for one before they compute.\n\n\
         Hosted and under `belfry exec`, syncobjs are the driver's own:\n\n\
         - Another process can poll their descriptors and sync files, and cannot import them. A signal does not end a wait.\n\
         - The ioctls of sync files (MERGE, FILE_INFO, SET_DEADLINE) work in the process that made them.\n\
         - FILE_INFO gives driver, state and time of each fence. Contexts and numbers of fences are 0 in names.\n\
         - The time of a fence that was over from the beginning is 0.\n\
         - SET_DEADLINE is taken without effect.\n\
         - A descriptor of a sync file is a socket, unlike on Linux. `poll` with `POLLOUT` always says that it can be written; on Linux never.\n\
         - `read` of it waits for the end of the work and takes one byte. `poll` no longer reports the end then. On Linux `read` answers EINVAL.\n\n\
         Partitions of a gfx942 have a render node each ([chips.md](chips.md)). Hosted and under `belfry exec`, all of them share\n\
         the syncobjs of a process.\n\n\
         PRIME takes memory of this GPU; under `belfry exec` also memory of another process's GPU. There, all descriptors of a\n\
         render node that a process has are one open file: opening it again gives the same handles, and closing one of them gives\n\
         nothing back before the process ends.\n\n\
         A file has an address space of its own, which ACQUIRE_VM gives to KFD as well. GEM_VA and KFD map in the same one, and\n\
         neither replaces a mapping of the other. The last 2 GiB of addresses are the driver's own.\n\n\
         ## INFO\n\n\
         | number | question | state |\n| --- | --- | --- |\n",
    );
    for &(name, query) in INFO_QUERIES {
        let refused = REFUSED_QUERIES.iter().find(|refused| refused.query == query);
        let state =
            refused.map_or("built".to_owned(), |refused| format!("absent: EINVAL(22), {}", refused.reason));
        let name = name.trim_start_matches("AMDGPU_INFO_");
        let _ = writeln!(text, "| {query:#04x} | {name} | {state} |");
    }
    text
}

/// Compares a page with the text that the code gives, or writes it.
fn check(page: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        written, now,
        "docs/{page} is stale: BLESS=1 cargo test -p belfry-hosted-tests --test hosted docs::"
    );
}

#[test]
fn ioctl_table_is_the_drivers() {
    check("ioctls.md", &ioctls());
}

#[test]
fn render_node_table_is_the_drivers() {
    check("render-node.md", &render_node());
}

#[test]
fn page_of_packets_has_a_row_for_each_that_is_known() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/packets.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (pm4, sdma) = page.split_once("## SDMA").unwrap();
    let names = |part: &str| -> Vec<String> {
        let rows = part.lines().filter(|line| line.starts_with("| "));
        let first = rows.filter_map(|row| row.split('|').nth(1));
        let word = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_');
        first.flat_map(|cell| cell.split(word).map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let (pm4, sdma) = (names(pm4), names(sdma));
    let missing = |known: Vec<&'static str>, rows: &[String]| -> Vec<_> {
        known.into_iter().filter(|name| !rows.iter().any(|row| row == name)).collect()
    };
    assert_eq!(missing((0..=u8::MAX).filter_map(|op| Opcode(op).name()).collect(), &pm4), Vec::<&str>::new());
    let operations = (0..=u8::MAX).filter_map(|op| Op(op).name());
    let kinds = (0..=u8::MAX).filter_map(copy_sub_op::name);
    assert_eq!(missing(operations.chain(kinds).collect(), &sdma), Vec::<&str>::new());
}
