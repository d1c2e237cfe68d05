//! Time to make a region's code, and to find it in a folder: `cargo bench -p belfry-code-folder`.

#[path = "../../../device/isa/tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_code_folder::Folder;
use belfry_isa::code_cache::{CodeCache, SharedCode};
use belfry_isa::code_store::KeptCode;
use belfry_isa::inst::Arch;
use belfry_isa::lanes::{Backend, Tier};
use belfry_isa::wave::{Wave, WaveInit};
use common::Gpu;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

const OBJECT: &[u8] = include_bytes!("../../../guest-runtime/kernels/bench.gfx1100.hsaco");
const END: u32 = 0xbfb0_0000;
const ROUNDS: usize = 31;

/// Instructions of a kernel without its end, `copies` times, and one end.
fn program(name: &str, copies: usize) -> Vec<u8> {
    let file = object::File::parse(OBJECT).expect("an object");
    let text = file.section_by_name(".text").expect("it has code");
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).expect("it has the kernel");
    let at = (symbol.address() - text.address()) as usize;
    let code = &text.data().expect("it has content")[at..at + symbol.size() as usize];
    let is_end = |word: &[u8]| word == END.to_le_bytes();
    let end = code.chunks(4).position(is_end).expect("it ends") * 4;
    [code[..end].repeat(copies), END.to_le_bytes().to_vec()].concat()
}

/// Time of a wave to its first instruction in this code.
fn begin(gpu: &mut Gpu, pc: u64, backend: Backend, kept: Option<Arc<KeptCode>>) -> Duration {
    let code = SharedCode::new(Arch::Gfx1100, backend).kept_in(kept);
    gpu.code = CodeCache::sharing(Arc::new(code));
    let mut wave = Wave::new(&WaveInit { pc, vgpr_count: 256, ..WaveInit::default() });
    let begun = Instant::now();
    gpu.step(&mut wave, 1);
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn measure(backend: Backend, name: &str, copies: usize, folder: &Path) {
    let program = program(name, copies);
    let mut gpu = Gpu::of(Arch::Gfx1100, backend, 4 << 20);
    let pc = gpu.buffer(&program);
    let kept = || Some(Arc::new(KeptCode::new(Folder::open(folder, |text| panic!("{text}")).unwrap(), 0)));
    let interpreter = backend.with_tier(Tier::Zero);
    let mut times = [(); 4].map(|()| Vec::new());
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let _ = std::fs::remove_dir_all(folder);
        times[0].push(begin(&mut gpu, pc, interpreter, None));
        times[1].push(begin(&mut gpu, pc, backend, None));
        let first = kept();
        times[2].push(begin(&mut gpu, pc, backend, first.clone()));
        assert_eq!(first.expect("it is there").counts().stored, 1);
        let second = kept();
        times[3].push(begin(&mut gpu, pc, backend, second.clone()));
        assert_eq!(second.expect("it is there").counts().loaded, 1);
        let files = std::fs::read_dir(folder).expect("it is there");
        bytes = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    }
    let [lowered, compiled, stored, loaded] = times.map(median);
    println!(
        "{:?} {name:>10} x {copies:<4} {:>6} dwords {:>8} bytes kept: lowering {lowered:>8.1} us, compiling {:>8.1} us, \
         and keeping {:>8.1} us, finding {:>8.1} us",
        backend.kind(),
        program.len() / 4,
        bytes,
        compiled - lowered,
        stored - compiled,
        loaded - lowered,
    );
}

fn main() {
    let folder = std::env::temp_dir().join(format!("belfry-regions-{}", std::process::id()));
    for backend in Backend::all().filter(|backend| backend.tier() == Tier::One) {
        for (name, copies) in [
            ("vadd", 1),
            ("alu", 1),
            ("gemm_naive", 1),
            ("reduce", 1),
            ("gemm_tiled", 1),
            ("gemm_tiled", 4),
            ("gemm_tiled", 16),
            ("alu", 100),
        ] {
            measure(backend, name, copies, &folder);
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}
