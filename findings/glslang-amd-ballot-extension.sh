#!/usr/bin/env bash
# Packages: glslang-tools 15.1.0+1.4.309.0-1, spirv-tools 2025.1~rc1-1 (Debian trixie). Date: 2026-11-29.
#
# Seen: glslang compiles addInvocationsAMD of GL_AMD_shader_ballot to a module that spirv-val refuses, for Vulkan 1.0, 1.1
# and 1.3 and for OpenGL: it uses OpGroupIAdd and leaves out the extension SPV_AMD_shader_ballot that allows it there.
# For addInvocationsNonUniformAMD it declares the extension, and the module is valid. So a shader that uses the first is
# invalid alone and valid with a call of the second beside it. minInvocationsAMD, maxInvocationsAMD and the scans are alike.
# glslang says nothing, with status 0.
# spirv-opt --amd-ext-to-khr makes of the swizzles of the same extension a test of each lane, whether the source lane is
# active, and 0 where it is not. The test is on a constant with all bits set, so it always passes; the set of active
# lanes is not asked for.
#
# Matters to: drivers and emulators with that extension, who get such modules and cannot rely on a validator; those who use
# the pass to get rid of AMD's extensions.
# Documentation: SPV_AMD_shader_ballot: the extension allows the group instructions with subgroup scope; for
# the swizzles, the pass itself selects 0 where its test fails.
source "$(dirname "$0")/common.bash"
debian spirv trixie glslang-tools=15.1.0+1.4.309.0-1 spirv-tools=2025.1~rc1-1
run spirv glslangValidator --version | sed -n 's/^Glslang/glslang/p'
run spirv spirv-val --version | sed -n 1p

shader() { # TARGET EXPRESSION...: a compute shader that stores each
    local target=$1 kind=-V expression
    shift
    [ "$target" = opengl ] && kind=-G
    {
        printf '#version 450\n'
        printf '#extension %s : require\n' GL_AMD_shader_ballot GL_ARB_shader_ballot
        printf 'layout(local_size_x = 64) in;\nlayout(std430, binding = 0) buffer Numbers { uint f[]; } b;\n'
        printf 'void main() {\n    uint i = gl_LocalInvocationID.x;\n'
        for expression in "$@"; do printf '    if ((i & 1u) == 0u) b.f[i] += %s;\n' "$expression"; done
        printf '}\n'
    } >"$work/a.comp"
    run spirv glslangValidator $kind --target-env "$target" -o "$work/a.spv" "$work/a.comp" >"$work/log" || cat "$work/log"
}
validity() { # TARGET: what the validator says
    run spirv spirv-val --target-env "${1/opengl/opengl4.5}" "$work/a.spv" >"$work/log" 2>&1 && echo valid || echo invalid
}
for target in vulkan1.0 vulkan1.1 vulkan1.3 opengl; do
    for name in add min; do
        shader $target "${name}InvocationsAMD(b.f[i])"
        compare "$target: ${name}InvocationsAMD" valid invalid "$(validity $target)"
    done
    shader $target "addInvocationsNonUniformAMD(b.f[i])"
    compare "$target: addInvocationsNonUniformAMD" valid valid "$(validity $target)"
    shader $target "addInvocationsAMD(b.f[i])" "addInvocationsNonUniformAMD(b.f[i])"
    compare "$target: both" valid valid "$(validity $target)"
done

for expression in 'swizzleInvocationsAMD(b.f[i], uvec4(1, 0, 3, 2))' 'swizzleInvocationsMaskedAMD(b.f[i], uvec3(31, 0, 1))'; do
    shader vulkan1.1 "$expression"
    run spirv spirv-opt --amd-ext-to-khr "$work/a.spv" -o "$work/b.spv"
    run spirv spirv-dis --raw-id "$work/b.spv" >"$work/b.txt"
    mask=$(sed -n 's/.* = OpGroupNonUniformBallotBitExtract %[0-9]* %[0-9]* \(%[0-9]*\) .*/\1/p' "$work/b.txt")
    compare "${expression%%(*}: the mask of lanes" "OpGroupNonUniformBallot" "OpConstantComposite" \
        "$(sed -n "s/^ *$mask = \(Op[A-Za-z]*\) .*/\1/p" "$work/b.txt")"
    compare "${expression%%(*}: ballots in the module" 1 0 "$(grep -c 'OpGroupNonUniformBallot ' "$work/b.txt" || true)"
done
finish
