//! `belfry run -- launch` with output of other compilers: programs and bundles of hipcc.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use belfry_image::{Cache, Freshness, Progress, rootfs};
use belfry_tests::suite;

const SOURCE: &str = "#include <hip/hip_runtime.h>
struct Line { unsigned char skip; float slope; double offset; };
__global__ void line(float* y, const float* x, Line line) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = line.skip ? x[i] : line.slope * x[i] + line.offset;
}
namespace other { __global__ void line(float* y) { y[threadIdx.x] = 1; } }
template <int N> __global__ void add(int* y) { y[threadIdx.x] += N; }
template __global__ void add<5>(int*);
int main() { return hipDeviceSynchronize(); }
";

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn launch(belfry: &Path, place: &Path, line: &str) -> (bool, String) {
    let mut command = Command::new(belfry);
    command.args(["run", "--mode", "hosted", "--", "launch"]).args(line.split(' '));
    let output = command.current_dir(place).stdin(Stdio::null()).output().unwrap();
    (output.status.success(), text(&output))
}

#[test]
fn kernels_of_hip_programs_and_bundles_are_launched() {
    let cache = Cache::open().unwrap();
    let tree = rootfs::obtain(&cache, "rocm", Freshness::Cached, &Progress::new()).unwrap().path;
    let belfry = suite::belfry().unwrap();
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("my.hip"), SOURCE).unwrap();
    for options in [
        "--offload-arch=gfx1100 my.hip -o program",
        "--offload-arch=gfx1030 --offload-arch=gfx1100 my.hip -o both",
        "--offload-arch=gfx1100 --genco my.hip -o bundle.hsaco",
        "--offload-arch=gfx1030 my.hip -o foreign",
    ] {
        let mut command = Command::new(&belfry);
        command.args(["exec", "--quiet", "--root"]).arg(&tree).args(["--", "hipcc"]).args(options.split(' '));
        let output = command.current_dir(place.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{options}: {}", text(&output));
    }
    let arguments = "--arg buf:f32:32:zero --arg buf:f32:32:iota --arg struct:u8:0,f32:2,f64:0.5";
    for file in ["program", "both", "bundle.hsaco"] {
        let (ok, said) =
            launch(&belfry, place.path(), &format!("{file} --kernel line --grid 32 --block 32 {arguments}"));
        assert!(ok && said.contains("argument 0: f32[32] = 0.5, 2.5, 4.5, 6.5, "), "{file}: {said}");
    }
    let (ok, said) =
        launch(&belfry, place.path(), "program --kernel add --grid 32 --block 32 --arg buf:i32:32:iota");
    assert!(ok && said.contains("= 5, 6, 7, "), "{said}");
    for (line, expected) in [
        ("program --kernel nope --grid 1 --block 1", "no kernel `nope` in the code object; it has _Z"),
        (
            "foreign --kernel line --grid 1 --block 1",
            "the file has no code for gfx1100, it has code for gfx1030",
        ),
        (
            "program --kernel line --grid 1 --block 1 --arg buf:f32:1:zero --arg buf:f32:1:zero --arg struct:f32:1",
            "bytes, 4 were given",
        ),
    ] {
        let (ok, said) = launch(&belfry, place.path(), line);
        assert!(!ok && said.contains(expected), "{line}: {said}");
    }
}
