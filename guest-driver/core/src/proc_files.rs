//! Files about the processes that use the device: `/sys/class/kfd/kfd/proc` (`kfd_process.c`, `kfd_procfs_init` and what
//! follows it).
//!
//! In the core's words a process's directory is `proc/ID`, with the id that the device knows the process by; the operating
//! system names it by the process's number, and adds and removes it and the directories of its queues.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::os::{Clock, Os};
use crate::process::Process;
use crate::process_device::ProcessNode;
use crate::processes::Processes;

/// A process, and a path below its directory.
type Place<'a, O> = (Arc<Process<O>>, Vec<&'a str>);

/// In front of the processes' paths.
const ROOT: &str = "proc/";

fn proc_file<O: Os>(process: &Process<O>, path: &[&str]) -> Result<String> {
    match *path {
        ["pasid"] => Ok(format!("{}\n", process.pasid)),
        [name] if let Some(node) = node_after(process, name, "vram_") => {
            Ok(format!("{}\n", process.held_on(node).vram))
        }
        // What an engine has worked for a queue is counted by its firmware, and Belfry's does not.
        [name] if node_after(process, name, "sdma_").is_some() => Ok("0\n".to_string()),
        [folder, "evicted_ms"] if let Some(node) = node_after(process, folder, "stats_") => {
            let now = process.os().clock_ns(Clock::Monotonic);
            let ns = process.state.lock().devices.part(node.index).map_or(0, |part| part.evicted_ns(now));
            Ok(format!("{}\n", ns / 1_000_000))
        }
        // There are no retry faults, and pages stay in system memory.
        [folder, "faults" | "page_in" | "page_out"] if node_after(process, folder, "counters_").is_some() => {
            Ok("0\n".to_string())
        }
        // For the operating system: the queues there are, one in a line.
        ["queues"] => {
            Ok(process.state.lock().queues.keys().map(|id| format!("{id}\n")).collect::<Vec<_>>().concat())
        }
        ["queues", id, file] => queue_file(process, id, file),
        _ => Err(Errno::ENOENT),
    }
}

/// The node whose id follows the beginning of a name.
fn node_after<'a, O: Os>(process: &'a Process<O>, name: &str, start: &str) -> Option<&'a ProcessNode<O>> {
    let id = name.strip_prefix(start)?;
    process.nodes.iter().find(|node| id == node.gpu_id.to_string())
}

/// These have no end of line in Linux, either.
fn queue_file<O: Os>(process: &Process<O>, id: &str, file: &str) -> Result<String> {
    let id: u32 = id.parse().map_err(|_| Errno::ENOENT)?;
    let state = process.state.lock();
    let queue = state.queues.get(&id).ok_or(Errno::ENOENT)?;
    match file {
        "gpuid" => Ok(process.nodes.get(queue.node).gpu_id.to_string()),
        "size" => Ok(queue.ring_size.to_string()),
        "type" => Ok(queue.user.sysfs_type.to_string()),
        _ => Err(Errno::ENOENT),
    }
}

fn proc_folder<O: Os>(process: &Process<O>, path: &[&str]) -> Result<Vec<String>> {
    let strings = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    match *path {
        [] => {
            let mut entries = strings(&["pasid", "queues/"]);
            for gpu in process.nodes.iter().map(|node| node.gpu_id) {
                entries.extend([format!("vram_{gpu}"), format!("sdma_{gpu}"), format!("stats_{gpu}/")]);
                entries.extend(process.os().has_svm().then(|| format!("counters_{gpu}/")));
            }
            Ok(entries)
        }
        [folder] if node_after(process, folder, "stats_").is_some() => Ok(strings(&["evicted_ms"])),
        [folder] if node_after(process, folder, "counters_").is_some() => {
            Ok(strings(&["faults", "page_in", "page_out"]))
        }
        // They come and go: the operating system adds their directories as they do.
        ["queues"] => Ok(Vec::new()),
        ["queues", id] => {
            queue_file(process, id, "type")?;
            Ok(strings(&["gpuid", "size", "type"]))
        }
        _ => Err(Errno::ENOENT),
    }
}

/// The process that a path leads to, and the rest of the path.
fn proc_of<'a, O: Os>(processes: &Processes<O>, path: &'a str) -> Option<Result<Place<'a, O>>> {
    let mut parts = path.strip_prefix(ROOT)?.split('/').filter(|part| !part.is_empty());
    let id = parts.next().and_then(|id| id.parse().ok());
    let process = id.and_then(|id| processes.get(id)).ok_or(Errno::ENOENT);
    Some(process.map(|process| (process, parts.collect())))
}

/// Returns the text of a file below `proc/`; nothing for another path.
pub(crate) fn read<O: Os>(processes: &Processes<O>, path: &str) -> Option<Result<String>> {
    Some(proc_of(processes, path)?.and_then(|(process, path)| proc_file(&process, &path)))
}

/// Lists a directory below `proc/`; nothing for another path.
pub(crate) fn list<O: Os>(processes: &Processes<O>, path: &str) -> Option<Result<Vec<String>>> {
    Some(proc_of(processes, path)?.and_then(|(process, path)| proc_folder(&process, &path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// Every file below a directory, with its text.
    fn files(bench: &Bench, path: &str) -> Vec<(String, String)> {
        let entries = bench.kfd.sysfs_list(path).unwrap();
        let mut found = Vec::new();
        for entry in entries {
            match entry.strip_suffix('/') {
                Some(folder) => found.extend(files(bench, &format!("{path}/{folder}"))),
                None => {
                    let path = format!("{path}/{entry}");
                    let text = bench.kfd.sysfs_read(&path).unwrap();
                    found.push((path, text));
                }
            }
        }
        found
    }

    #[test]
    fn process_has_the_files_that_linux_gives_it() {
        let bench = Bench::new();
        let process = bench.process(7);
        let (id, gpu) = (process.pasid, bench.device.gpu_id());
        let found = files(&bench, &format!("proc/{id}"));
        let text = |name: &str| {
            let path = format!("proc/{id}/{name}");
            &found.iter().find(|(found, _)| *found == path).unwrap_or_else(|| panic!("{path}: {found:?}")).1
        };
        assert_eq!(*text("pasid"), format!("{id}\n"));
        assert_eq!(*text(&format!("vram_{gpu}")), "0\n");
        assert_eq!(*text(&format!("stats_{gpu}/evicted_ms")), "0\n");
        assert_eq!(bench.kfd.sysfs_read(&format!("proc/{id}/queues")).unwrap(), "");
        for path in ["proc", "proc/", "proc/0", "proc/x/pasid", "proc/7000/pasid"] {
            assert_eq!(bench.kfd.sysfs_read(path), Err(Errno::ENOENT), "{path}");
            assert_eq!(bench.kfd.sysfs_list(path), Err(Errno::ENOENT), "{path}");
        }
        let missing = format!("proc/{id}/queues/0");
        assert_eq!(bench.kfd.sysfs_list(&missing), Err(Errno::ENOENT));
        bench.end(7);
        assert_eq!(bench.kfd.sysfs_list(&format!("proc/{id}")), Err(Errno::ENOENT));
    }

    #[test]
    fn time_without_the_scheduler_is_added_up() {
        let bench = Bench::new();
        let process = bench.process(7);
        let mut state = process.state.lock();
        let part = state.devices.part_mut(0).unwrap();
        for (since, until) in [(1_000_000, 3_000_000), (10_000_000, 11_000_000)] {
            part.count_eviction(since);
            // Off it already.
            part.count_eviction(since + 500_000);
            part.end_eviction(until);
            part.end_eviction(until + 1);
        }
        assert_eq!(part.evicted_ns(20_000_000), 3_000_000);
        part.count_eviction(20_000_000);
        assert_eq!(part.evicted_ns(24_000_000), 7_000_000);
    }
}
