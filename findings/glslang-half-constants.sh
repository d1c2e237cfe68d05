#!/usr/bin/env bash
# Packages: glslang-tools 15.1.0+1.4.309.0-1, spirv-tools 2025.1~rc1-1 (Debian trixie). Date: 2026-11-29.
#
# Seen: glslang cuts constants of 16 bits where it rounds those of 32. `0.3hf` of GL_AMD_gpu_shader_half_float becomes 34cc,
# and the nearest half is 34cd; 1e-7 becomes 1, nearest is 2; 65535.0 becomes 65504, the largest one. spirv-as does the
# same with `OpConstant %half 0.3`. Mesa converts at run time by rounding to nearest on AMD GPUs, so `float16_t(x) == 0.3hf`
# is false for an x of 0.3. The mode RoundingModeRTE 16 of the shader changes nothing. Arithmetic of constants is done in
# double: 0.7hf + 0.3hf is 1.0, where the sum of the two constants in the module is 0.9995.
#
# Matters to: half-precision shaders, whose constants all err to the same side; tests that compare a shader with numpy or
# with a kernel of OpenCL or HIP, where 0.3 is 34cd.
# Documentation: GLSL 4.60, 4.1.4: a literal has the closest value of its type, for float; GL_AMD_gpu_shader_half_float adds the
# suffix and no other rule; Vulkan: under RoundingModeRTE 16 results are rounded to nearest.
source "$(dirname "$0")/common.bash"
need python3
debian spirv trixie glslang-tools=15.1.0+1.4.309.0-1 spirv-tools=2025.1~rc1-1
run spirv glslangValidator --version | sed -n 's/^Glslang/glslang/p'
run spirv spirv-as --version | sed -n 's/^SPIRV-Tools/spirv-tools/p'

constant() { # FILE TYPE: the bits of the constants of that type, but 0
    run spirv spirv-dis "$1" | sed -n "s/.*= OpConstant %$2 //p" | python3 -c '
import struct, sys
form = {"half": "e", "float": "f"}[sys.argv[1]]
values = [float.fromhex(text) if "x" in text else float(text) for text in sys.stdin.read().split()]
print(" ".join(struct.pack(">" + form, value).hex() for value in values if value))' "$2"
}
shader() { # TYPE EXPRESSION [MODE]
    cat >"$work/a.comp" <<C
#version 450
#extension GL_AMD_gpu_shader_half_float : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_spirv_intrinsics : require
${3:-}
layout(std430, binding = 0) buffer Numbers { $1 f; } b;
void main() { b.f = $2; }
C
    run spirv glslangValidator -V --target-env vulkan1.3 "$work/a.comp" -o "$work/a.spv" >/dev/null
}
half() { # EXPRESSION [MODE]
    shader float16_t "$@"
    constant "$work/a.spv" half
}
shader float 0.3
compare "float: 0.3" 3e99999a 3e99999a "$(constant "$work/a.spv" float)"
while read -r expression expected now; do
    compare "half: $expression" "$expected" "$now" "$(half "$expression")"
done <<'LIST'
0.3hf 34cd 34cc
-0.3hf b4cd b4cc
float16_t(0.3) 34cd 34cc
0.7hf 399a 3999
1.9999hf 4000 3fff
1e-7hf 0002 0001
float16_t(65535.0) 7c00 7bff
LIST
mode='spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4467], 4462, 16);'
compare "half: 0.3hf, RoundingModeRTE 16" 34cd 34cc "$(half 0.3hf "$mode")"
compare "the mode is in the module" 1 1 "$(run spirv spirv-dis "$work/a.spv" | grep -c 'RoundingModeRTE 16')"
compare "half: 0.7hf + 0.3hf" "3bff, the sum of 3999 and 34cc" 3c00 "$(half '0.7hf + 0.3hf')"
printf 'OpCapability Shader\nOpCapability Float16\nOpMemoryModel Logical GLSL450\n%%half = OpTypeFloat 16\n%%c = OpConstant %%half 0.3\n' \
    >"$work/a.spvasm"
run spirv spirv-as "$work/a.spvasm" -o "$work/b.spv"
compare "spirv-as: OpConstant %half 0.3" 34cd 34cc "$(constant "$work/b.spv" half)"
finish
