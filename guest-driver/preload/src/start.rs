//! Limits of the process, which a start has to respect.
#![expect(unsafe_code, reason = "asks for what belongs to the process")]

use belfry_kfd_hosted::HostedConfig;

/// Makes the driver's memory of all GPUs fit into the address space that the process may map.
///
/// This memory is only address space until it is touched. A process with a limit on address space gives a
/// quarter of the part that is left; if the memory does not fit then, the error names the limit.
pub(crate) fn fitting(mut configs: Vec<HostedConfig>) -> Vec<HostedConfig> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is this function's own.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if asked == 0 && limit.rlim_cur != libc::RLIM_INFINITY {
        let vram = configs.iter().fold(0u64, |sum, config| sum.saturating_add(config.gpu.vram_size));
        let left = limit.rlim_cur.saturating_sub(mapped()).saturating_sub(vram);
        let most = (left / 4 / configs.len().max(1) as u64) & !0xfff;
        for config in &mut configs {
            config.system_memory =
                config.system_memory.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1 << 20);
        }
    }
    configs
}

/// Bytes of address space in use.
fn mapped() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
