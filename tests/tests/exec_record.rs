//! `belfry exec --record`: the GPU of each process does the same again without its program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use belfry_image::{Cache, Freshness, Progress, rootfs};
use belfry_tests::suite;

fn tree() -> PathBuf {
    let cache = Cache::open().unwrap();
    rootfs::obtain(&cache, "rocm", Freshness::Cached, &Progress::new()).unwrap().path
}

fn belfry(arguments: &[&str]) -> Output {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    let belfry = BELFRY.get_or_init(|| suite::belfry().unwrap());
    Command::new(belfry).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program in the root tree that leaves records in `folder`; its exit status and its output.
fn record(folder: &Path, options: &[&str], program: &[&str]) -> (Option<i32>, String) {
    let tree = tree();
    let first = ["exec", "--root", tree.to_str().unwrap(), "--record", folder.to_str().unwrap()];
    let output = belfry(&[&first[..], options, &["--"], program].concat());
    (output.status.code(), said(&output))
}

/// The records in a folder.
fn records(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[track_caller]
fn replay(options: &[&str], record: &Path) -> String {
    let output = belfry(&[&["replay"], options, &[record.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

const PROGRAM: &str = r#"#include <hip/hip_runtime.h>
#include <hip/hip_cooperative_groups.h>
#include <cstdio>
__global__ void scale(float *data, float by) { data[blockIdx.x * blockDim.x + threadIdx.x] *= by; }
__global__ void count(unsigned *sum) { atomicAdd(sum, 1u); }
__global__ void rotate(float *data, float *other) {
    auto grid = cooperative_groups::this_grid();
    for (int round = 0; round < 4; round++) {
        for (int at = grid.thread_rank(); at < 4096; at += grid.size()) other[at] = data[(at + 1) % 4096];
        grid.sync();
        float *swap = data;
        data = other;
        other = swap;
    }
}
int main() {
    const int size = 4096;
    static float host[size];
    for (int at = 0; at < size; at++) host[at] = at;
    float *data, *other;
    unsigned *sum, total = 0;
    if (hipMalloc(&data, sizeof host) != hipSuccess || hipMalloc(&sum, 4) != hipSuccess) return 1;
    if (hipMemcpy(data, host, sizeof host, hipMemcpyHostToDevice) != hipSuccess) return 2;
    if (hipMemset(sum, 0, 4) != hipSuccess) return 3;
    for (int round = 0; round < 3; round++) {
        scale<<<size / 256, 256>>>(data, 2.0f);
        count<<<size / 256, 256>>>(sum);
    }
    if (hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 4;
    if (hipMemcpy(&total, sum, 4, hipMemcpyDeviceToHost) != hipSuccess) return 5;
    for (int at = 0; at < size; at++) if (host[at] != 8.0f * at) return 6;
    // Queues with a barrier of the whole grid take turns with others.
    if (hipMalloc(&other, sizeof host) != hipSuccess) return 8;
    void *arguments[] = {&data, &other};
    if (hipLaunchCooperativeKernel((const void *)rotate, dim3(32), dim3(64), arguments, 0, nullptr) != hipSuccess) return 9;
    if (hipMemcpy(host, data, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 10;
    for (int at = 0; at < size; at++) if (host[at] != 8.0f * ((at + 4) % size)) return 11;
    std::printf("%u\n", total);
    return total == 3 * size ? 0 : 7;
}
"#;

#[test]
fn hip_program_is_recorded_and_its_gpu_replayed() {
    let place = tempfile::tempdir().unwrap();
    let (source, program) = (place.path().join("scale.hip"), place.path().join("scale"));
    std::fs::write(&source, PROGRAM).unwrap();
    let tree = tree();
    let compiled = belfry(&[
        "exec",
        "--quiet",
        "--root",
        tree.to_str().unwrap(),
        "--",
        "hipcc",
        "--offload-arch=gfx1100",
        source.to_str().unwrap(),
        "-o",
        program.to_str().unwrap(),
    ]);
    assert!(compiled.status.success(), "{}", said(&compiled));
    let folder = place.path().join("records");
    let (status, output) = record(&folder, &[], &[program.to_str().unwrap()]);
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("12288\n") && output.contains("belfry exec: recorded"), "{output}");
    let records = records(&folder);
    let [record] = &records[..] else { panic!("{records:?}") };
    assert!(record.file_name().unwrap().to_str().unwrap().starts_with("scale-"), "{records:?}");
    let again = replay(&["--times", "3"], record);
    assert!(again.contains("the same, 3 times"), "{again}");
    // The program's memory is not there any more, and the replay has the parts that its kernels have read.
    let kernel = replay(&["--until", "dispatch:3"], record);
    assert!(kernel.contains("dispatch"), "{kernel}");
    replay(&["--until", "dispatch:6", "--back", "50"], record);
}

#[test]
fn faults_of_a_program_strike_again() {
    let place = tempfile::tempdir().unwrap();
    let program = ["python3", "-c", FORKS];
    let (status, output) =
        record(place.path(), &["--fault", "frame-late@every:1,for:1ms", "--chip", "gfx942"], &program);
    assert_eq!(status, Some(5), "{output}");
    for record in records(place.path()) {
        let again = replay(&[], &record);
        assert!(again.contains("the same") && again.contains("frame-late"), "{again}");
    }
}

/// Opens the driver without any library of ROCm, in a process and two of its three children.
const FORKS: &str = "import fcntl, os
def use():
    fd = os.open('/dev/kfd', os.O_RDWR)
    fcntl.ioctl(fd, 0x80084b01, bytes(8))
use()
os.closerange(3, 100)
for child in range(3):
    if os.fork() == 0:
        if child < 2:
            use()
        os._exit(0)
for child in range(3):
    os.wait()
os._exit(5)
";

#[test]
fn each_process_has_a_record_and_a_killed_one_has_no_end() {
    let place = tempfile::tempdir().unwrap();
    let (status, output) = record(place.path(), &[], &["python3", "-c", FORKS]);
    assert_eq!(status, Some(5), "{output}");
    let all = records(place.path());
    assert_eq!((all.len(), output.matches("belfry exec: recorded").count()), (3, 3), "{output}");
    all.iter().for_each(|record| assert!(replay(&[], record).contains("the same"), "{record:?}"));

    // A signal that can be told of: its record is whole.
    let place = tempfile::tempdir().unwrap();
    let ends = FORKS.replace("os._exit(5)", "os.kill(os.getpid(), 15)");
    let (status, output) = record(place.path(), &[], &["python3", "-c", &ends]);
    assert_eq!(status, Some(143), "{output}");
    assert_eq!(output.matches("belfry exec: recorded").count(), 3, "{output}");
    records(place.path()).iter().for_each(|record| assert!(replay(&[], record).contains("the same")));

    // A process that cannot end its record.
    let place = tempfile::tempdir().unwrap();
    let killed = FORKS.replace("os._exit(5)", "os.kill(os.getpid(), 9)");
    let (status, output) = record(place.path(), &[], &["python3", "-c", &killed]);
    assert_eq!(status, Some(137), "{output}");
    assert_eq!(output.matches("has no end").count(), 1, "{output}");
    assert_eq!(output.matches("belfry exec: recorded").count(), 2, "{output}");
}

#[test]
fn folder_that_cannot_be_made_starts_no_program_and_a_suite_has_no_records() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let (status, output) = record(&file.join("folder"), &[], &["echo", "started"]);
    assert!(status != Some(0) && output.contains("making the folder of records"), "{output}");
    assert!(!output.contains("started\n"), "{output}");
    let (status, output) = record(place.path(), &[], &["hip-suite"]);
    assert!(status != Some(0) && output.contains("a suite is many"), "{output}");
    let (status, output) = record(place.path(), &["--sanitize"], &["true"]);
    assert!(status != Some(0) && output.contains("--sanitize"), "{output}");
}
