//! Tools that come with ROCm and scripts in Python: their command lines and their expected output.

/// One command in a root tree that has to end with 0.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Name of its case.
    pub name: &'static str,
    /// Program and arguments.
    pub argv: &'static [&'static str],
    /// Texts that its standard output has to contain; all of them.
    pub says: &'static [&'static str],
}

/// All of them.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "rocminfo",
        argv: &["rocminfo"],
        says: &["gfx1100", "amdgcn-amd-amdhsa--gfx1100", "KERNEL_DISPATCH"],
    },
    Tool {
        name: "rocm_agent_enumerator",
        argv: &["rocm_agent_enumerator"],
        says: &["gfx000\n", "gfx1100\n"],
    },
    Tool {
        name: "rocm_agent_enumerator_by_name",
        argv: &["rocm_agent_enumerator", "-name"],
        says: &["gfx1100\n"],
    },
    Tool {
        name: "clinfo",
        argv: &["clinfo"],
        says: &["AMD Accelerated Parallel Processing", "gfx1100", "Number of devices"],
    },
    Tool { name: "clinfo_list", argv: &["clinfo", "--list"], says: &["Device #0: gfx1100"] },
    Tool { name: "rocm_smi", argv: &["rocm-smi"], says: &["ROCm System Management Interface", "GPU"] },
    Tool {
        name: "rocm_smi_product",
        argv: &["rocm-smi", "--showproductname", "--showbus", "--showmeminfo", "vram"],
        says: &["0x744c", "VRAM Total Memory (B)", "PCI Bus"],
    },
    Tool {
        name: "rocm_smi_sensors",
        argv: &["rocm-smi", "--showtemp", "--showpower", "--showclocks", "--showuse", "--showperflevel"],
        says: &[
            "GPU use (%): 0",
            "Temperature (Sensor junction) (C)",
            "sclk clock level",
            "Performance Level: auto",
        ],
    },
    Tool {
        name: "amd_smi_metric",
        argv: &["amd-smi", "metric", "--usage", "--power", "--mem-usage"],
        says: &["GFX_ACTIVITY: 0 %", "SOCKET_POWER", "TOTAL_VRAM"],
    },
    Tool { name: "amd_smi_list", argv: &["amd-smi", "list"], says: &["GPU: 0", "BDF"] },
    Tool { name: "amdgpu_arch", argv: &["amdgpu-arch-17"], says: &["gfx1100\n"] },
    Tool {
        name: "hipcc_compiles_for_the_gpu_that_is_there",
        argv: &["sh", "-c", include_str!("../../../tests/programs/hip/compile_and_run.sh")],
        says: &["1000 sums verified"],
    },
    Tool {
        name: "python_ctypes_hip",
        argv: &["python3", "-c", include_str!("../../../tests/programs/python/ctypes_hip.py")],
        says: &["gfx1100", "65536 words verified"],
    },
    Tool {
        name: "python_subprocess_and_multiprocessing",
        argv: &["python3", "-c", include_str!("../../../tests/programs/python/processes.py")],
        says: &["4 processes: gfx1100"],
    },
    Tool {
        name: "python_walks_the_topology",
        argv: &["python3", "-c", include_str!("../../../tests/programs/python/topology.py")],
        says: &["gfx_target_version 110000", "renderD"],
    },
];
