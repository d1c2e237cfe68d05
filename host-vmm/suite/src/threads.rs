//! Waits of the threads of a process group, in words: the evidence of a program that does not end.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

/// Most threads that are told of.
const TOLD: usize = 200;

/// A line for each thread of a process group: where it is in the kernel, and in which file its program is (proc(5):
/// `stat`, `wchan`, `syscall`, `maps`). What cannot be read, as for the processes of another user, is `?`.
pub(crate) fn describe(group: Pid) -> String {
    let mut lines = Vec::new();
    for pid in numbers(Path::new("/proc")) {
        let process = Path::new("/proc").join(pid.to_string());
        if field(&process.join("stat"), 2).and_then(|field| field.parse().ok()) != Some(group.as_raw_pid()) {
            continue;
        }
        lines.push(format!("process {pid}: {}", command_line(&process)));
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        for thread in numbers(&process.join("task")) {
            lines.push(describe_thread(&process.join("task").join(thread.to_string()), thread, &maps));
        }
    }
    let more = lines.len().saturating_sub(TOLD);
    lines.truncate(TOLD);
    if more > 0 {
        lines.push(format!("and {more} lines more"));
    }
    lines.join("\n")
}

fn describe_thread(task: &Path, thread: u32, maps: &str) -> String {
    let read =
        |name: &str| fs::read_to_string(task.join(name)).unwrap_or_else(|_| "?".to_owned()).trim().to_owned();
    let state = field(&task.join("stat"), 0).unwrap_or_else(|| "?".to_owned());
    let syscall = read("syscall");
    let place = syscall.split_whitespace().last().and_then(|pc| place(pc, maps)).unwrap_or_default();
    format!("  {thread} {} {state} in {}, system call {syscall}{place}", read("comm"), read("wchan"))
}

/// The file and the offset of a program counter, as `syscall` prints it.
fn place(pc: &str, maps: &str) -> Option<String> {
    let pc = u64::from_str_radix(pc.strip_prefix("0x")?, 16).ok()?;
    maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
        let file = fields.nth(2).unwrap_or("memory without a file");
        (start..end).contains(&pc).then(|| format!(" from {file}+{:#x}", pc - start + offset))
    })
}

/// A field of `stat` after the name, which may hold anything: 0 is the state, 2 the process group.
fn field(stat: &Path, index: usize) -> Option<String> {
    let stat = fs::read_to_string(stat).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(index).map(str::to_owned)
}

fn command_line(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    words.collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// The entries of a folder that are numbers, in order.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_counter_is_found_in_its_file() {
        let maps = "1000-3000 r--p 00000000 08:01 7 /lib/a.so\n3000-5000 r-xp 00002000 08:01 7 /lib/a.so\n\
                    7000-8000 rw-p 00000000 00:00 0 \n";
        assert_eq!(place("0x3010", maps).unwrap(), " from /lib/a.so+0x2010");
        assert_eq!(place("0x7000", maps).unwrap(), " from memory without a file+0x0");
        assert_eq!(place("0x6000", maps), None);
        assert_eq!(place("running", maps), None);
    }
}
