#!/usr/bin/env bash
# Packages: mesa-vulkan-drivers 25.0.7-2+deb13u1, libvulkan1 and libvulkan-dev 1.4.309.0-1, llvm-22 1:22.1.8-1~deb13u5
# (Debian trixie). Date: 2026-11-29.
#
# Seen: RADV_FORCE_FAMILY gives a Vulkan device without a GPU, and a part of its limits is of no chip at all.
# timestampPeriod is infinite, compute units, shader arrays, and the sizes and steps of the allocation of registers are 0,
# every chip that was tried, Raven too, has 4 shader engines, and many have device ID 0. What looks real is not always:
# vgprsPerSimd is 512 for gfx1151 and gfx1201, the same as for gfx1102, where LLVM plans with 768 (a kernel of 96
# registers has 8 waves of 64 there, and 5 on gfx1102). Navi 31 has 768 in both.
#
# Matters to: those who take a chip's numbers from RADV without the chip, as is handy, and programs that divide by them.
# Documentation: the Vulkan specification: timestampPeriod is the number of nanoseconds for an increment of a timestamp;
# vgprAllocationGranularity is the step of the allocation; Mesa's list of environment variables has
# RADV_FORCE_FAMILY for compiling shaders without the GPU.
source "$(dirname "$0")/common.bash"
need cc
debian mesa trixie mesa-vulkan-drivers=25.0.7-2+deb13u1 libvulkan1=1.4.309.0-1 libvulkan-dev=1.4.309.0-1
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llc --version | sed -n 's/^ *//; /version/p'
echo "mesa-vulkan-drivers 25.0.7-2+deb13u1"

cat >"$work/limits.c" <<'C'
#include <stdio.h>
#include <vulkan/vulkan.h>

int main(void)
{
    VkApplicationInfo application = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3 };
    VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application };
    VkInstance instance;
    VkPhysicalDevice device;
    uint32_t one = 1;
    if (vkCreateInstance(&info, NULL, &instance) || vkEnumeratePhysicalDevices(instance, &one, &device) || one != 1)
        return 1;
    VkPhysicalDeviceShaderCorePropertiesAMD core = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD };
    VkPhysicalDeviceProperties2 all = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &core };
    vkGetPhysicalDeviceProperties2(device, &all);
    printf("vgprs %u\nengines %u\ntimestamp %f\nsteps %u %u %u\nunits %u %u\nid %04x\n", core.vgprsPerSimd,
           core.shaderEngineCount, all.properties.limits.timestampPeriod, core.minVgprAllocation, core.maxVgprAllocation,
           core.vgprAllocationGranularity, core.shaderArraysPerEngineCount, core.computeUnitsPerShaderArray,
           all.properties.deviceID);
    return 0;
}
C
libraries=$work/mesa/usr/lib/x86_64-linux-gnu
cc -I"$work/mesa/usr/include" "$work/limits.c" -o "$work/mesa/usr/bin/limits" "$libraries/libvulkan.so.1" -Wl,--allow-shlib-undefined
printf '{"file_format_version":"1.0.0","ICD":{"api_version":"1.4.305","library_path":"%s"}}\n' \
    "$libraries/libvulkan_radeon.so" >"$work/radv.json"
limits() { # FAMILY
    RADV_FORCE_FAMILY=$1 VK_DRIVER_FILES=$work/radv.json XDG_RUNTIME_DIR=$work run mesa limits 2>/dev/null >"$work/limits.$1"
}
limit() { sed -n "s/^$2 //p" "$work/limits.$1"; }

printf 'define amdgpu_kernel void @k() #0 {\n  call void asm sideeffect "", "~{v95}"()\n  ret void\n}\n' >"$work/k.ll"
echo 'attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }' >>"$work/k.ll"
waves() { # CPU: waves of 64 with 96 registers, by LLVM
    run llvm llc -mtriple=amdgcn-amd-amdhsa -mcpu="$1" -mattr=+wavefrontsize64 "$work/k.ll" -o - | sed -n 's/^; Occupancy: //p'
}
while read -r family cpu now; do
    limits "$family"
    compare "$family: waves of 96 registers, by vgprsPerSimd" "$(waves "$cpu"), by LLVM" "$now" "$(($(limit "$family" vgprs) / 96))"
done <<'LIST'
navi31 gfx1100 8
navi33 gfx1102 5
gfx1151 gfx1151 5
gfx1201 gfx1201 5
navi21 gfx1030 5
LIST
limits raven
for family in raven navi31 gfx1201; do
    compare "$family: timestampPeriod" "nanoseconds" inf "$(limit $family timestamp)"
    compare "$family: VGPRs: least, most, step of the allocation" "none is 0" "0 0 0" "$(limit $family steps)"
    compare "$family: arrays of an engine, units of an array" "none is 0" "0 0" "$(limit $family units)"
    compare "$family: engines" "those of the chip" 4 "$(limit $family engines)"
done
compare "navi33, gfx1151: device ID" "one of the chip" "0000 0000" "$(limit navi33 id) $(limit gfx1151 id)"
finish
