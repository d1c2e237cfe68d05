#!/usr/bin/env bash
# Packages: spirv-cross 2021.01.15+1.4.304.1-2, glslang-tools 15.1.0+1.4.309.0-1, spirv-tools 2025.1~rc1-1 (Debian trixie).
# Date: 2026-11-29.
#
# Seen: spirv-cross turns the scans of SPV_AMD_shader_ballot into reductions. The GLSL function
# addInvocationsInclusiveScanNonUniformAMD becomes OpGroupIAddNonUniformAMD with the operation InclusiveScan, and
# spirv-cross prints that as addInvocationsNonUniformAMD, which is the sum over all lanes: the operand is dropped. The
# text compiles again, to Reduce. Exclusive scans and minima and maxima go the same way. For HLSL and MSL, which have no such
# functions, it prints the AMD names all the same (mid3 and mbcntAMD are others), and for a uniform
# addInvocationsAMD in HLSL a comment "unimplemented op 264" and the use of a name that is not declared. The exit status is 0.
# spirv-opt --amd-ext-to-khr keeps the operation.
#
# Matters to: those who read shaders of captures as GLSL, or test a compiler by a round trip through it.
# Documentation: SPV_AMD_shader_ballot, OpGroupIAddNonUniformAMD: the operand Operation selects reduction or scan.
source "$(dirname "$0")/common.bash"
debian spirv trixie spirv-cross=2021.01.15+1.4.304.1-2 glslang-tools=15.1.0+1.4.309.0-1 spirv-tools=2025.1~rc1-1
echo "spirv-cross 2021.01.15+1.4.304.1-2"
run spirv glslangValidator --version | sed -n 's/^Glslang/glslang/p'

shader() { # EXPRESSION: a compute shader that stores it
    cat >"$work/a.comp" <<C
#version 450
#extension GL_AMD_shader_ballot : require
#extension GL_AMD_shader_trinary_minmax : require
#extension GL_ARB_shader_ballot : require
#extension GL_ARB_gpu_shader_int64 : require
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Numbers { uint f[]; } b;
void main() { uint i = gl_LocalInvocationID.x; b.f[i] = $1; }
C
    binary "$work/a.comp"
}
binary() { run spirv glslangValidator -V --target-env vulkan1.1 -o "$work/a.spv" -S comp "$1" >"$work/log" || cat "$work/log"; }
operations() { # group operations of the binary
    run spirv spirv-dis "$work/a.spv" | sed -n 's/.* = \(OpGroup[A-Za-z]*\) %uint %uint_3 \([A-Za-z]*\) .*/\1 \2/p'
}
printed() { # OPTION: how the binary is printed
    { run spirv spirv-cross "$1" "$work/a.spv" 2>&1 >"$work/text" && echo 0; } >"$work/status" || true
    echo "$(grep -oE '[a-zA-Z0-9]*(AMD|mid3)\(|unimplemented op [0-9]*' "$work/text" | tr -d '(' | sort -u | paste -sd' '), status $(cat "$work/status")"
}
for scan in addInvocationsInclusiveScanNonUniformAMD addInvocationsExclusiveScanNonUniformAMD \
    maxInvocationsInclusiveScanNonUniformAMD; do
    shader "$scan(b.f[i])"
    before=$(operations)
    plain=$(sed 's/[IE][a-z]*Scan//' <<<"$scan")
    compare "$scan as GLSL" "$scan, status 0" "$plain, status 0" "$(printed --vulkan-semantics)"
    binary "$work/text"
    compare "$before, through GLSL and back" "$before" "${before% *} Reduce" "$(operations)"
done
while read -r language expression; do
    shader "$expression"
    name=${expression%%(*}
    compare "$name as ${language#--}" "an error" "$name, status 0" "$(printed "$language")"
done <<'LIST'
--hlsl mid3(b.f[i], 1u, 2u)
--hlsl mbcntAMD(0xfful)
--hlsl writeInvocationAMD(b.f[i], 7u, 3u)
--msl writeInvocationAMD(b.f[i], 7u, 3u)
--msl mbcntAMD(0xfful)
LIST
shader "addInvocationsAMD(b.f[i])"
compare "addInvocationsAMD as hlsl" "an error" "unimplemented op 264, status 0" "$(printed --hlsl)"
finish
