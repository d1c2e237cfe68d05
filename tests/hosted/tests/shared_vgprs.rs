//! Vector registers that the halves of a wave64 share, from an assembled descriptor to a kernel's results.

use belfry_device::GpuConfig;
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

/// Squares in a loop over the halves with a shared temporary, and the value that the low half left there for the high
/// half.
const BODY: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    s_subvector_loop_begin s8, .Lend
.Lbody:
    v_mul_lo_u32 v32, v0, v0
    v_add_nc_u32 v1, v32, 1
    s_subvector_loop_end s8, .Lbody
.Lend:
    s_mov_b32 exec_hi, 0
    v_add_nc_u32 v39, 100, v0
    s_not_b64 exec, exec
    v_mov_b32 v2, v39
    s_mov_b64 exec, -1
    v_lshlrev_b32 v3, 3, v0
    s_waitcnt lgkmcnt(0)
    global_store_b64 v3, v[1:2], s[4:5]
    s_endpgm
";

fn runtime() -> Runtime {
    let gpu = HostedGpu::new(GpuConfig { vram_size: 64 << 20, ..GpuConfig::default() }).unwrap();
    Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap()
}

#[test]
fn halves_of_a_wave_share_registers() {
    let runtime = runtime();
    let gpu = runtime.gpu();
    let kernel = Kernel { directives: ".amdhsa_shared_vgpr_count 1", ..Kernel::new("halves", BODY) };
    let module = gpu.load(&assemble("gfx1100", &[kernel]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; 128]).unwrap();
    let queue = gpu.queue().unwrap();
    module.kernel("halves").unwrap().launch(&queue).grid(64).block(64).args((&out,)).run().unwrap();
    let expected: Vec<u32> =
        (0..64).flat_map(|lane| [lane * lane + 1, if lane < 32 { 0 } else { 100 + lane - 32 }]).collect();
    assert_eq!(out.to_vec(), expected);
}
