//! Kernels written in assembly language, assembled when a test runs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::compiler;

/// A kernel: `s[0:1]` holds the address of its arguments, `s2` the workgroup's number, `v0` the work-item's.
#[derive(Clone, Debug)]
pub struct Kernel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its instructions, `s_endpgm` included.
    pub body: &'a str,
    /// More directives of its descriptor, `.amdhsa_*`; with shared vector registers, or an offset of accumulation registers as on
    /// gfx942, it has waves of 64 lanes, else of 32.
    pub directives: &'a str,
    /// Vector registers its descriptor says it uses.
    pub vgprs: u32,
    /// Pointer arguments.
    pub pointers: u32,
}

impl<'a> Kernel<'a> {
    /// A kernel with one pointer argument and 32 vector registers.
    #[must_use]
    pub fn new(name: &'a str, body: &'a str) -> Self {
        Self { name, body, directives: "", vgprs: 32, pointers: 1 }
    }
}

/// Assembles and links kernels for a GPU, `gfx1100` for the one there is, into a code object.
///
/// # Errors
///
/// When there is no clang 19, or it refuses the source.
pub fn assemble(gpu: &str, kernels: &[Kernel<'_>]) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (source, object) = (folder.path().join("kernels.s"), folder.path().join("kernels.hsaco"));
    std::fs::write(&source, text(gpu, kernels)?)?;
    run_clang(gpu, &source, &object)?;
    Ok(std::fs::read(object)?)
}

fn run_clang(gpu: &str, source: &Path, object: &Path) -> Result<()> {
    let output = Command::new(compiler::clang()?)
        .args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-mcode-object-version=5"])
        .arg(format!("-mcpu={gpu}"))
        .arg(source)
        .arg("-o")
        .arg(object)
        .stdin(Stdio::null())
        .output()
        .context("running clang")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Lanes of a wave.
fn lanes(directives: &str) -> u32 {
    let wide = [".amdhsa_shared_vgpr_count", ".amdhsa_accum_offset"];
    if wide.iter().any(|directive| directives.contains(directive)) { 64 } else { 32 }
}

fn text(gpu: &str, kernels: &[Kernel<'_>]) -> Result<String> {
    let mut text = format!(".amdgcn_target \"amdgcn-amd-amdhsa--{gpu}\"\n");
    for Kernel { name, body, directives, vgprs, pointers } in kernels {
        let bytes = pointers * 8;
        // Only later chips have a choice, and an instruction that nothing gets to.
        let (size, filler) = if directives.contains(".amdhsa_accum_offset") {
            (String::new(), "s_nop 0")
        } else {
            let wave32 = u32::from(lanes(directives) == 32);
            (format!("  .amdhsa_wavefront_size32 {wave32}\n"), "s_code_end")
        };
        write!(
            text,
            ".text\n.globl {name}\n.p2align 8\n.type {name},@function\n{name}:\n{body}\n.Lend_{name}:\n\
             .size {name}, .Lend_{name}-{name}\n.rept 64\n{filler}\n.endr\n\
             .rodata\n.p2align 6\n.amdhsa_kernel {name}\n  .amdhsa_next_free_vgpr {vgprs}\n\
             \x20 .amdhsa_next_free_sgpr 100\n  .amdhsa_user_sgpr_kernarg_segment_ptr 1\n\
             \x20 .amdhsa_kernarg_size {bytes}\n{size}{directives}\n.end_amdhsa_kernel\n"
        )?;
    }
    text.push_str(".amdgpu_metadata\namdhsa.version: [1, 2]\namdhsa.kernels:\n");
    for Kernel { name, directives, vgprs, pointers, .. } in kernels {
        let (bytes, lanes) = (pointers * 8, lanes(directives));
        write!(
            text,
            "  - .name: {name}\n    .symbol: {name}.kd\n    .kernarg_segment_size: {bytes}\n    .kernarg_segment_align: 8\n\
             \x20   .group_segment_fixed_size: 0\n    .private_segment_fixed_size: 0\n    .wavefront_size: {lanes}\n\
             \x20   .sgpr_count: 100\n    .vgpr_count: {vgprs}\n    .max_flat_workgroup_size: 1024\n    .args:\n"
        )?;
        for argument in 0..*pointers {
            writeln!(
                text,
                "      - {{.offset: {}, .size: 8, .value_kind: global_buffer, .address_space: global}}",
                argument * 8
            )?;
        }
    }
    text.push_str(".end_amdgpu_metadata\n");
    Ok(text)
}
