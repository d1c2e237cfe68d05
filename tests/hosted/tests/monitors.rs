//! Figures that monitors read of a card, while it works and while it is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belfry_abi::kfd::drm::{
    self as nr, AMDGPU_INFO_DEV_INFO, AMDGPU_INFO_READ_MMR_REG, AMDGPU_INFO_SENSOR, DrmAmdgpuInfo,
    DrmAmdgpuInfoDevice, INFO,
};
use belfry_device::GpuConfig;
use belfry_device::chip::{self, Model};
use belfry_kfd_hosted::{Errno, HostedGpu, HostedProcess, Node};
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;
use zerocopy::{FromZeros as _, IntoBytes as _};

/// Nothing takes as long unless it hangs.
const HANG: Duration = Duration::from_secs(60);

/// Offsets of a chip's registers: those of the graphics core and of the SDMA engines as linux `soc21.c` and
/// `soc15.c` have them; and the revision that tells the chip from others of its family.
struct Registers {
    grbm_status: u32,
    cp_cpc_status: u32,
    cp_stalled: u32,
    sdma: &'static [u32],
    others: &'static [u32],
    external_rev: u32,
}

fn registers(chip: &Model) -> Registers {
    let navi = |sdma, external_rev| Registers {
        grbm_status: 0x2004,
        cp_cpc_status: 0x2084,
        cp_stalled: 0x219c,
        sdma,
        others: &[0x263e],
        external_rev,
    };
    match chip.to_string().as_str() {
        "gfx1100" => navi(&[0x1285, 0x1885], 0x1),
        "gfx1151" => navi(&[0x1285, 0x1885], 0xc1),
        "gfx1201" => navi(&[0x1284, 0x1884], 0x50),
        "gfx942" => Registers { others: &[0x263e, 0x260d], ..navi(&[0x1285], 0x46) },
        "gfx950" => Registers { others: &[0x263e, 0x260d], ..navi(&[0x1285], 0x50) },
        other => panic!("{other} has no registers here"),
    }
}

fn gpu(chip: &'static Model) -> Arc<HostedGpu> {
    HostedGpu::new(GpuConfig { chip, vram_size: 64 << 20, ..GpuConfig::default() }).unwrap()
}

fn info(process: &HostedProcess, query: u32, args: [u32; 4], out: &mut [u8]) -> Result<(), Errno> {
    let return_size = out.len() as u32;
    let mut request = DrmAmdgpuInfo { return_pointer: out.as_mut_ptr() as u64, return_size, query, args };
    process.ioctl(Node::Render, INFO, (&raw mut request).cast()).map(|_| ())
}

/// Reads a register.
fn read(process: &HostedProcess, dword: u32) -> Result<u32, Errno> {
    let mut value = 0u32;
    info(process, AMDGPU_INFO_READ_MMR_REG, [dword, 1, u32::MAX, 0], value.as_mut_bytes())?;
    Ok(value)
}

fn sensor(process: &HostedProcess, number: u32) -> u32 {
    let mut value = 0u32;
    info(process, AMDGPU_INFO_SENSOR, [number, 0, 0, 0], value.as_mut_bytes()).unwrap();
    value
}

fn file(process: &HostedProcess, path: &str) -> u64 {
    String::from_utf8(process.card_read(path).unwrap()).unwrap().trim().parse().unwrap()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs an endless kernel while `run` runs.
fn while_busy(gpu: &Arc<HostedGpu>, run: impl FnOnce(&HostedProcess)) {
    let runtime = Runtime::with_transport(HostedTransport::open(gpu).unwrap()).unwrap();
    let device = runtime.gpu();
    let [stop, begun] = [(); 2].map(|()| device.gtt().buffer_from(&[0u32]).unwrap());
    let queue = device.queue().unwrap();
    let spin = device.load(belfry_test_roles::probe(device)).unwrap().kernel("spin").unwrap();
    let completion = spin.launch(&queue).grid(32).block(32).args((&stop, &begun)).submit().unwrap();
    eventually("the kernel begins", || begun.get(0).unwrap() != 0);
    run(HostedTransport::open(gpu).unwrap().process());
    stop.write(0, &[1]).unwrap();
    completion.wait().unwrap();
}

#[test]
fn registers_that_linux_allows_are_read_and_no_others() {
    for chip in chip::MODELS {
        let gpu = gpu(chip);
        let transport = HostedTransport::open(&gpu).unwrap();
        let process = transport.process();
        let Registers { grbm_status, cp_cpc_status, cp_stalled, sdma, others, external_rev } =
            registers(chip);
        // GRBM_STATUS2, GRBM_STATUS, _SE0 to _SE3; CP_CPC_* and CP_CPF_*; CP_STALLED_STAT3 to 2, CP_STAT.
        let graphics = [0, 2, 3, 4, 0xc, 0xd].map(|at| grbm_status - 2 + at);
        let processor = [0, 1, 2, 3, 4, 5].map(|at| cp_cpc_status + at);
        let stalled = [0, 1, 2, 4].map(|at| cp_stalled + at);
        let allowed = [&graphics[..], &processor, &stalled, sdma, others].concat();
        for dword in (0..0x3000).chain([u32::MAX]) {
            let expected = if allowed.contains(&dword) { Ok(()) } else { Err(Errno::EFAULT) };
            assert_eq!(read(process, dword).map(|_| ()), expected, "{chip}: {dword:#x}");
        }
        assert_eq!(read(process, grbm_status), Ok(0), "{chip} is idle");
        assert_eq!(read(process, sdma[0]), Ok(0x46de_e557), "{chip}'s engine is idle");
        let mut many = [0u32; 129];
        let mut ask = |args| info(process, AMDGPU_INFO_READ_MMR_REG, args, many.as_mut_bytes());
        assert_eq!(ask([cp_cpc_status, 6, 0x103, 0]), Ok(()));
        assert_eq!(ask([cp_cpc_status, 7, u32::MAX, 0]), Err(Errno::EFAULT), "one is not allowed");
        assert_eq!(ask([u32::MAX, 2, u32::MAX, 0]), Err(Errno::EFAULT));
        assert_eq!(ask([0, 0, u32::MAX, 0]), Ok(()), "none");
        for (count, instance) in [(129, u32::MAX), (1, 0xff04), (1, 0x2ff), (u32::MAX, u32::MAX)] {
            assert_eq!(ask([grbm_status, count, instance, 0]), Err(Errno::EINVAL), "{count} {instance:#x}");
        }
        let mut device = DrmAmdgpuInfoDevice::new_zeroed();
        info(process, AMDGPU_INFO_DEV_INFO, [0; 4], device.as_mut_bytes()).unwrap();
        assert_eq!(device.external_rev, external_rev, "{chip}");
    }
}

#[test]
fn registers_sensors_and_files_say_the_same_while_the_card_works_and_afterwards() {
    for chip in chip::MODELS {
        let gpu = gpu(chip);
        let registers = registers(chip);
        let idle = HostedTransport::open(&gpu).unwrap();
        let energy = || {
            let bytes = idle.process().card_read("gpu_metrics").unwrap();
            u64::from_le_bytes(bytes[24..32].try_into().unwrap())
        };
        let before = energy();
        while_busy(&gpu, |process| {
            let set = |at: u32, bits: &[u32]| {
                let value = read(process, at).unwrap();
                bits.iter().all(|&bit| value >> bit & 1 == 1)
            };
            // Between two turns of its waves nothing is executed.
            let (status, status2) = (registers.grbm_status, registers.grbm_status - 2);
            eventually("GUI_ACTIVE, CP_BUSY and SPI_BUSY", || set(status, &[22, 29, 31]));
            eventually("CPF_BUSY and CPC_BUSY", || set(status2, &[28, 29]));
            eventually("SPI_BUSY of the first engine", || set(status + 1, &[27]));
            eventually("CPC_BUSY and MEC1_BUSY", || set(registers.cp_cpc_status, &[0, 31]));
            eventually("CPF_BUSY and CPF_CMP_BUSY", || set(registers.cp_cpc_status + 3, &[27, 31]));
            eventually("a pipe of the micro engine", || {
                read(process, registers.cp_cpc_status + 1).unwrap() >> 10 & 0xf != 0
            });
            eventually("load", || sensor(process, nr::AMDGPU_INFO_SENSOR_GPU_LOAD) > 50);
            // Looks that are close together are one.
            let agree = || {
                let load = u64::from(sensor(process, nr::AMDGPU_INFO_SENSOR_GPU_LOAD));
                let power = u64::from(sensor(process, nr::AMDGPU_INFO_SENSOR_GPU_AVG_POWER));
                let files = (file(process, "gpu_busy_percent"), file(process, "hwmon/power1_average"));
                load > 50 && files == (load, power * 1_000_000)
            };
            eventually("sensors and files agree", agree);
        });
        eventually("no load", || file(idle.process(), "gpu_busy_percent") == 0);
        assert_eq!(read(idle.process(), registers.grbm_status), Ok(0), "{chip}");
        assert!(energy() > before, "{chip}");
    }
}

#[test]
fn monitors_that_never_pause_cost_the_card_nothing_but_their_looks() {
    let gpu = gpu(chip::DEFAULT);
    let status = registers(chip::DEFAULT).grbm_status;
    let over = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let pollers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let transport = HostedTransport::open(&gpu).unwrap();
                    let mut reads = 0u64;
                    while !over.load(Ordering::Relaxed) {
                        assert!(file(transport.process(), "gpu_busy_percent") <= 100);
                        read(transport.process(), status).unwrap();
                        sensor(transport.process(), nr::AMDGPU_INFO_SENSOR_GPU_AVG_POWER);
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for _ in 0..3 {
            let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
            belfry_examples::run("vector-add", &runtime, &[], &mut Vec::new()).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        pollers.into_iter().map(|poller| poller.join().unwrap()).sum::<u64>()
    });
    assert!(reads > 0);
    let device = gpu.device();
    assert_eq!(device.stats().errors, Default::default());
    assert!(device.unmodelled().iter().all(|(name, ..)| !name.contains("GRBM")), "{:?}", device.unmodelled());
}
