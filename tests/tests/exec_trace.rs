//! `belfry exec --trace`: a timeline of all processes of a program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use belfry_image::{Cache, Freshness, Progress, rootfs};
use belfry_tests::suite;
use serde_json::Value;

fn tree() -> PathBuf {
    let cache = Cache::open().unwrap();
    rootfs::obtain(&cache, "rocm", Freshness::Cached, &Progress::new()).unwrap().path
}

fn belfry(arguments: &[&str]) -> Output {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    let belfry = BELFRY.get_or_init(|| suite::belfry().unwrap());
    Command::new(belfry).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// `belfry exec OPTIONS -- PROGRAM...` in the root tree.
fn exec(options: &[&str], program: &[&str]) -> Output {
    let tree = tree();
    let first = ["exec", "--quiet", "--root", tree.to_str().unwrap()];
    belfry(&[&first[..], options, &["--"], program].concat())
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The events of a kind, with the numbers of their GPUs.
fn of_kind<'a>(trace: &'a Value, kind: &str) -> Vec<(u64, &'a Value)> {
    let events = trace["events"].as_array().unwrap();
    let found = events.iter().filter(|event| event["event"] == kind);
    found.map(|event| (event["gpu"].as_u64().unwrap_or(0), event)).collect()
}

/// Opens the driver without any library of ROCm, in a process and two of its three children.
const FORKS: &str = "import fcntl, os
def use():
    fd = os.open('/dev/kfd', os.O_RDWR)
    fcntl.ioctl(fd, 0x80084b01, bytes(8))
use()
for child in range(3):
    if os.fork() == 0:
        if child < 2:
            use()
        os._exit(0)
for child in range(3):
    os.wait()
print('done', flush=True)
os._exit(5)
";

#[test]
fn trace_has_the_gpu_of_each_process_on_one_clock() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.json");
    let output = exec(&["--trace", file.to_str().unwrap()], &["python3", "-c", FORKS]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert_eq!(output.stdout, b"done\n");
    let trace = read(&file);
    let gpus = trace["gpus"].as_array().unwrap();
    let processes: BTreeSet<_> = gpus.iter().map(|gpu| gpu["process"].as_u64().unwrap()).collect();
    assert_eq!((gpus.len(), processes.len()), (3, 3), "{gpus:?}");
    assert!(gpus.iter().all(|gpu| gpu["name"] == "python3"), "{gpus:?}");
    let called: BTreeSet<_> = of_kind(&trace, "ioctl enter").iter().map(|(gpu, _)| *gpu).collect();
    assert_eq!(called, BTreeSet::from([0, 1, 2]));
    let times: Vec<_> =
        trace["events"].as_array().unwrap().iter().map(|event| event["time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    // The parent's GPU is made first, and is the first one.
    assert_eq!(of_kind(&trace, "ioctl enter")[0].0, 0);
    assert!(!directory.path().join("t.json.rings").exists());

    // Events of one process are asked for by its number.
    let one = processes.last().unwrap();
    let again = directory.path().join("one.csv");
    let only = format!("process={one}");
    let output =
        exec(&["--trace", again.to_str().unwrap(), "--trace-only", &only], &["python3", "-c", FORKS]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    // No process of the other run had that number.
    assert_eq!(std::fs::read_to_string(&again).unwrap().lines().count(), 1);
}

#[test]
fn hip_program_has_its_kernels_by_name_and_a_flow_of_each_dispatch() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("scale.hip"), directory.path().join("scale"));
    std::fs::write(
        &source,
        r#"#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void scale(float *data, float by) { data[blockIdx.x * blockDim.x + threadIdx.x] *= by; }
int main() {
    const int count = 4096;
    static float host[count];
    for (int at = 0; at < count; at++) host[at] = at;
    float *data;
    if (hipMalloc(&data, sizeof host) != hipSuccess) return 1;
    if (hipMemcpy(data, host, sizeof host, hipMemcpyHostToDevice) != hipSuccess) return 2;
    for (int round = 0; round < 3; round++) scale<<<count / 256, 256>>>(data, 2.0f);
    if (hipDeviceSynchronize() != hipSuccess) return 3;
    if (hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 4;
    for (int at = 0; at < count; at++) if (host[at] != 8.0f * at) return 5;
    puts("right");
}
"#,
    )
    .unwrap();
    let (source, program) = (source.to_str().unwrap(), program.to_str().unwrap());
    let compiled = exec(&[], &["hipcc", "-O1", "--offload-arch=gfx1100", source, "-o", program]);
    assert!(compiled.status.success(), "{}", said(&compiled));
    let file = directory.path().join("t.json");
    let output = exec(&["--trace", file.to_str().unwrap()], &[program]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(output.stdout, b"right\n");
    let trace = read(&file);
    let dispatches: Vec<_> = of_kind(&trace, "dispatch start")
        .into_iter()
        .filter(|(_, event)| event["text"] == "scale(float*, float)")
        .map(|(_, event)| event["job"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(dispatches.len(), 3, "{:?}", of_kind(&trace, "dispatch start"));
    for kind in ["packet", "workgroup start", "workgroup end", "dispatch end"] {
        let of: BTreeSet<_> = of_kind(&trace, kind)
            .iter()
            .map(|(_, event)| event["job"].as_str().unwrap().to_owned())
            .collect();
        assert!(dispatches.iter().all(|job| of.contains(job)), "{kind}");
    }
    assert!(!of_kind(&trace, "queue created").is_empty());
    let summary = belfry(&["trace", "summary", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&summary.stdout).into_owned();
    assert!(text.contains("scale(float*, float)") && text.contains("GPU of scale ("), "{text}");
}

#[test]
fn killed_program_leaves_its_events_and_its_status() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.json");
    let python = format!("{}os.kill(os.getpid(), 9)\n", FORKS.split("for child").next().unwrap());
    let output = exec(&["--trace", file.to_str().unwrap()], &["python3", "-c", &python]);
    assert_eq!(output.status.code(), Some(137), "{}", said(&output));
    assert!(!of_kind(&read(&file), "ioctl enter").is_empty());
}

#[test]
fn trace_that_cannot_be_made_starts_no_program() {
    let output = exec(&["--trace", "/nowhere/t.json"], &["echo", "started"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("/nowhere/t.json") && output.stdout.is_empty(), "{}", said(&output));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.json");
    let path = file.to_str().unwrap();
    let suite = exec(&["--trace", path], &["hip-suite"]);
    assert_eq!(suite.status.code(), Some(125));
    assert!(said(&suite).contains("--trace tells of one program"), "{}", said(&suite));
    // A directory of that name which is not empty is not touched but for rings.
    let rings = directory.path().join("t.json.rings");
    std::fs::create_dir(&rings).unwrap();
    std::fs::write(rings.join("notes"), "mine").unwrap();
    let output = exec(&["--trace", path], &["true"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(std::fs::read_to_string(rings.join("notes")).unwrap(), "mine");
}
