//! Properties of the system as the driver reports them.

use std::io::Write;

use anyhow::ensure;
use belfry_runtime::Runtime;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let (major, minor) = runtime.driver_version();
    writeln!(out, "KFD interface {major}.{minor}")?;
    for agent in runtime.agents().iter().filter(|agent| !agent.is_gpu()) {
        writeln!(out, "node {}: CPU, {} cores, {} memory", agent.node, agent.cpu_cores, size(agent.memory))?;
    }
    for gpu in runtime.gpus() {
        let agent = gpu.agent();
        writeln!(out, "node {}: GPU {} ({})", agent.node, agent.gfx_name(), agent.name)?;
        let mut line = |key: &str, value: String| writeln!(out, "  {key:20} {value}");
        line("gpu id", agent.gpu_id.to_string())?;
        line(
            "pci",
            format!("{:04x}:{:04x} at {:#06x}", agent.vendor_id, agent.device_id, agent.location_id),
        )?;
        line(
            "compute units",
            format!(
                "{} in {} shader engines, {} SIMDs each",
                agent.compute_units(),
                agent.shader_engines(),
                agent.simds_per_cu
            ),
        )?;
        line("waves", format!("{} lanes, {} on a SIMD", agent.wavefront_size, agent.max_waves_per_simd))?;
        line("LDS", format!("{} KiB for a workgroup", agent.lds_kib))?;
        line("memory", format!("{}, {} free", size(agent.memory), size(gpu.available_memory()?)))?;
        let caches: Vec<String> =
            agent.caches.iter().map(|(level, kib)| format!("L{level} {kib} KiB")).collect();
        line("caches", if caches.is_empty() { "none listed".to_owned() } else { caches.join(", ") })?;
        line("hardware queues", agent.cp_queues.to_string())?;
        line("firmware", agent.firmware.to_string())?;
        line("render node", format!("/dev/dri/renderD{}", agent.render_minor))?;
        let apertures = gpu.apertures();
        line("LDS aperture", format!("{:#x}", apertures.lds_base))?;
        line("scratch aperture", format!("{:#x}", apertures.scratch_base))?;
        let before = gpu.clocks()?;
        let after = gpu.clocks()?;
        ensure!(after.gpu_clock_counter >= before.gpu_clock_counter, "the GPU's clock runs backwards");
        line("GPU clock", format!("{} ticks", after.gpu_clock_counter))?;
    }
    Ok(())
}

/// Bytes in the largest unit that leaves a number of at least 1.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{value:.4} {unit}").replace(".0000", "");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(256 << 20), "256 MiB");
        assert_eq!(size(3 << 40), "3.0 TiB");
    }
}
