#!/usr/bin/env bash
# Packages: mesa-vulkan-drivers 25.0.7-2+deb13u1, libvulkan1 and libvulkan-dev 1.4.309.0-1, glslang-tools 15.1.0+1.4.309.0-1,
# spirv-tools 2025.1~rc1-1 (Debian trixie). Date: 2026-11-29.
#
# Seen: RADV rounds to half precision in other ways in its constant folder than in the code for the chip, and once wrongly.
# A cast from double to half under RoundingModeRTE 16 and DenormPreserve 16 is right for normal numbers and rounds twice
# for the small ones: 1.4999999999986 * 2^-24 becomes 2 * 2^-24, though 1 is nearest, and a number just above 0.5 * 2^-24
# becomes 0. packHalf2x16 of constants rounds to nearest; of numbers from memory it is v_cvt_pk_rtz_f16_f32, which cuts:
# 1.0009765 is 3c01 in the one and 3c00 in the other. A fused multiply-add of half constants is rounded twice (3c02), where
# the instruction for it, v_fmac_f16, rounds once to 3c01. The values are seen in the listing of a shader that is compiled
# for a chip that need not be there (RADV_FORCE_FAMILY).
#
# Matters to: tests of an emulator or a driver against values in shaders: whether the compiler can see an operand
# changes the result.
# Documentation: the Vulkan specification, "Precision and Operation of SPIR-V Instructions": conversions are correctly
# rounded, and under RoundingModeRTE to nearest; AMD's RDNA3 ISA document: V_CVT_PK_RTZ_F16_F32, V_FMAC_F16.
source "$(dirname "$0")/common.bash"
need cc
debian mesa trixie mesa-vulkan-drivers=25.0.7-2+deb13u1 libvulkan1=1.4.309.0-1 libvulkan-dev=1.4.309.0-1
debian spirv trixie glslang-tools=15.1.0+1.4.309.0-1 spirv-tools=2025.1~rc1-1
echo "mesa-vulkan-drivers 25.0.7-2+deb13u1"

cat >"$work/compile.c" <<'C'
#include <stdio.h>
#include <vulkan/vulkan.h>

int main(int count, char **arguments)
{
    static uint32_t code[1 << 14];
    FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
    size_t size = file ? fread(code, 1, sizeof code, file) : 0;
    VkApplicationInfo application = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3 };
    VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application };
    VkInstance instance;
    VkPhysicalDevice physical;
    uint32_t one = 1;
    if (vkCreateInstance(&info, NULL, &instance) || vkEnumeratePhysicalDevices(instance, &one, &physical) || one != 1)
        return 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1,
                                      .pQueuePriorities = &priority };
    VkPhysicalDeviceVulkan12Features later = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                               .shaderFloat16 = VK_TRUE };
    VkPhysicalDeviceVulkan11Features halves = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &later, .storageBuffer16BitAccess = VK_TRUE };
    VkPhysicalDeviceFeatures features = { .shaderFloat64 = VK_TRUE };
    VkDeviceCreateInfo wanted = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &halves, .queueCreateInfoCount = 1,
                                  .pQueueCreateInfos = &queue, .pEnabledFeatures = &features };
    VkDevice device;
    if (vkCreateDevice(physical, &wanted, NULL, &device))
        return 1;
    VkDescriptorSetLayoutBinding binding = { .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1,
                                             .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT };
    VkDescriptorSetLayoutCreateInfo set_info = { .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                 .bindingCount = 1, .pBindings = &binding };
    VkDescriptorSetLayout set;
    vkCreateDescriptorSetLayout(device, &set_info, NULL, &set);
    VkPipelineLayoutCreateInfo layout_info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1,
                                               .pSetLayouts = &set };
    VkPipelineLayout layout;
    vkCreatePipelineLayout(device, &layout_info, NULL, &layout);
    VkShaderModuleCreateInfo module_info = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size,
                                             .pCode = code };
    VkShaderModule module;
    vkCreateShaderModule(device, &module_info, NULL, &module);
    VkComputePipelineCreateInfo pipeline_info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = layout,
        .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                   .module = module, .pName = "main" } };
    VkPipeline pipeline;
    return vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &pipeline_info, NULL, &pipeline) != VK_SUCCESS;
}
C
libraries=$work/mesa/usr/lib/x86_64-linux-gnu
cc -I"$work/mesa/usr/include" "$work/compile.c" -o "$work/mesa/usr/bin/compile" "$libraries/libvulkan.so.1" -Wl,--allow-shlib-undefined
printf '{"file_format_version":"1.0.0","ICD":{"api_version":"1.4.305","library_path":"%s"}}\n' \
    "$libraries/libvulkan_radeon.so" >"$work/radv.json"
compile() { # FAMILY: what the shader stores, if it is a constant, or else the instruction of 16 bits in it
    RADV_FORCE_FAMILY=$1 RADV_DEBUG=shaders,nocache VK_DRIVER_FILES=$work/radv.json XDG_RUNTIME_DIR=$work \
        run mesa compile "$work/a.spv" >"$work/listing" 2>&1
    if ! sed -n 's/.*@store_ssbo (%[0-9]* (0x\([0-9a-f]*\)).*/\1/p' "$work/listing" | grep .; then
        sed -n '/^disasm/,$s/^\t\(v_[a-z0-9_]*f16[a-z0-9_]*\) .*/\1/p' "$work/listing" | sed 's/_e32$//; s/_e64$//' | paste -sd' '
    fi
}
glsl() { # EXPRESSION
    cat >"$work/a.comp" <<C
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_16bit_storage : require
#define half(bits) uint16BitsToHalf(uint16_t(bits))
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Numbers { uint result; float x, y; float16_t a, b, c; } n;
void main() { n.result = $1; }
C
    run spirv glslangValidator -V --target-env vulkan1.3 "$work/a.comp" -o "$work/a.spv" >/dev/null
}
double() { # NUMBER: a cast to half, of which the bits are stored
    cat >"$work/a.spvasm" <<S
OpCapability Shader
OpCapability Float16
OpCapability Float64
OpCapability Int16
OpCapability StorageBuffer16BitAccess
OpCapability RoundingModeRTE
OpCapability DenormPreserve
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %buffer
OpExecutionMode %main LocalSize 64 1 1
OpExecutionMode %main RoundingModeRTE 16
OpExecutionMode %main DenormPreserve 16
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %buffer DescriptorSet 0
OpDecorate %buffer Binding 0
%void = OpTypeVoid
%function = OpTypeFunction %void
%half = OpTypeFloat 16
%double = OpTypeFloat 64
%short = OpTypeInt 16 0
%int = OpTypeInt 32 1
%block = OpTypeStruct %short
%pointer = OpTypePointer StorageBuffer %block
%member = OpTypePointer StorageBuffer %short
%buffer = OpVariable %pointer StorageBuffer
%zero = OpConstant %int 0
%number = OpConstant %double $1
%main = OpFunction %void None %function
%label = OpLabel
%cast = OpFConvert %half %number
%bits = OpBitcast %short %cast
%place = OpAccessChain %member %buffer %zero
OpStore %place %bits
OpReturn
OpFunctionEnd
S
    run spirv spirv-as --target-env vulkan1.3 "$work/a.spvasm" -o "$work/a.spv"
    run spirv spirv-val --target-env vulkan1.3 "$work/a.spv"
}
for family in vega10 navi31 gfx1201; do
    while read -r number what expected now; do
        double "$number"
        compare "$family: double to half, ${what//_/ }" "$expected" "$now" "$(compile $family)"
    done <<'LIST'
0x1.00200000001p+0 1+2^-11+2^-44 3c01 3c01
0x1.001ffffffffp+0 just_below_1+2^-11 3c00 3c00
0x1.7fffffffffp-24 just_below_1.5*2^-24 1 2
0x1.0000000001p-25 just_above_0.5*2^-24 1 0
LIST
    glsl 'packHalf2x16(vec2(1.0009765, 0.0))'
    compare "$family: packHalf2x16 of constants" 3c00 3c01 "$(compile $family)"
    glsl 'uint(halfBitsToUint16(fma(half(0x2801), half(0x23fe), half(0x3c01))))'
    compare "$family: fma of constants" 3c01 3c02 "$(compile $family)"
done
glsl 'packHalf2x16(vec2(n.x, n.y))'
compare "navi31: packHalf2x16 of others" v_cvt_pk_rtz_f16_f32 v_cvt_pk_rtz_f16_f32 "$(compile navi31)"
glsl 'uint(halfBitsToUint16(fma(n.a, n.b, n.c)))'
compare "navi31: fma of others" v_fmac_f16 v_fmac_f16 "$(compile navi31)"
finish
