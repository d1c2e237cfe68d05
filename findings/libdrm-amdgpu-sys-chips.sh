#!/usr/bin/env bash
# Packages: libdrm_amdgpu_sys 0.9.0 (a crate), llvm-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: the crate that Rust's AMD GPU monitors are made with has two functions for the name of a chip, and they disagree:
# for Raphael get_gfx_target_name says gfx1030 and get_gfx_target_version gfx1036, for Renoir gfx909 and gfx90c, for
# Raven 2 gfx909 and gfx902. For MI300, Strix Point and all of gfx12 the first is empty. For Vega 12 and Hawk Point the second
# has nothing, though the kernel gives 90004 and 110003. has_accelerated_dot_product is false for MI300, whose
# assembler takes v_dot4_i32_i8, and true for gfx1013, whose assembler refuses it: the list of chips is compared by order.
# max_wave64_per_simd is 10 for gfx90a and gfx942, where LLVM plans with 8.
#
# Matters to: tools that choose code or print properties by it; emulators that check what monitors will show.
# Documentation: the crate calls one "Target name (GPU ID, GFX ID) for LLVM" and says of the other that it follows
# amdkfd; Linux 6.12, drivers/gpu/drm/amd/amdkfd/kfd_device.c.
source "$(dirname "$0")/common.bash"
need cargo
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
program_with libdrm_amdgpu_sys 0.9.0
sed -i 's/^libdrm_amdgpu_sys = .*/libdrm_amdgpu_sys = { version = "=0.9.0", default-features = false, features = ["dynamic_loading"] }/' \
    "$work/crate/Cargo.toml"
cat >"$work/crate/src/main.rs" <<'R'
use libdrm_amdgpu_sys::AMDGPU::{drm_amdgpu_info_device, FAMILY_NAME, GPU_INFO};

fn main() {
    let chips = [
        ("Raphael", FAMILY_NAME::GC_10_3_6, 0x01), ("Renoir", FAMILY_NAME::RV, 0x91), ("Raven2", FAMILY_NAME::RV, 0x81),
        ("MI300", FAMILY_NAME::AI, 0x46), ("StrixPoint", FAMILY_NAME::GC_11_5_0, 0x01),
        ("Navi48", FAMILY_NAME::GC_12_0_0, 0x50), ("Vega12", FAMILY_NAME::AI, 0x14),
        ("HawkPoint", FAMILY_NAME::GC_11_0_1, 0xc0), ("Navi31", FAMILY_NAME::GC_11_0_0, 0x01),
        ("MI200", FAMILY_NAME::AI, 0x3c), ("CyanSkillfish", FAMILY_NAME::NV, 0x82), ("Vega20", FAMILY_NAME::AI, 0x28),
    ];
    for (name, family, revision) in chips {
        let mut device: drm_amdgpu_info_device = unsafe { std::mem::zeroed() };
        device.family = family as u32;
        device.external_rev = revision;
        device.chip_rev = 2;
        let asic = device.get_asic_name();
        let version = device.get_gfx_target_version().map_or("none".into(), |version| version.to_string());
        let target = if asic.get_gfx_target_name().is_empty() { "empty" } else { asic.get_gfx_target_name() };
        println!("{name} {target} {version} dot {} waves {}", asic.has_accelerated_dot_product(), asic.max_wave64_per_simd());
    }
}
R
(cd "$work/crate" && cargo build -q --target-dir "$work/target") || missing "libdrm_amdgpu_sys =0.9.0"
echo "libdrm_amdgpu_sys 0.9.0"
run llvm llvm-mc --version | sed -n 's/^ *//; /version/p'
"$work/target/debug/finding" >"$work/seen"
names() { awk -v chip="$1" '$1 == chip { print $2, $3 }' "$work/seen"; }
dot() { awk -v chip="$1" '$1 == chip { print $5 }' "$work/seen"; }
waves() { awk -v chip="$1" '$1 == chip { print $7 }' "$work/seen"; }

while read -r chip expected now; do
    compare "$chip: target name and target version" "$expected $expected" "${now/,/ }" "$(names "$chip")"
done <<'LIST'
Navi31 gfx1100 gfx1100,gfx1100
Raphael gfx1036 gfx1030,gfx1036
Renoir gfx90c gfx909,gfx90c
Raven2 gfx902 gfx909,gfx902
MI300 gfx942 empty,gfx942
StrixPoint gfx1150 empty,gfx1150
Navi48 gfx1201 empty,gfx1201
Vega12 gfx904 gfx904,none
HawkPoint gfx1103 empty,none
LIST
while read -r chip cpu now; do
    llvm=true
    [[ $(encode llvm "$cpu" 'v_dot4_i32_i8 v0, v1, v2, v3') = error* ]] && llvm=false
    compare "$chip: dot products" "$llvm, by llvm-mc" "$now, by llvm-mc $cpu" "$(dot "$chip"), by llvm-mc $cpu"
done <<'LIST'
Vega20 gfx906 true
MI200 gfx90a true
MI300 gfx942 false
CyanSkillfish gfx1013 true
LIST
printf 'define amdgpu_kernel void @k() #0 {\n  ret void\n}\nattributes #0 = { "amdgpu-flat-work-group-size"="1,64" }\n' >"$work/k.ll"
while read -r chip cpu now; do
    compare "$chip: waves of 64 on a SIMD" "$(run llvm llc -mtriple=amdgcn-amd-amdhsa -mcpu="$cpu" "$work/k.ll" -o - |
        sed -n 's/^; Occupancy: //p'), by LLVM" "$now" "$(waves "$chip")"
done <<'LIST'
Vega20 gfx906 10
MI200 gfx90a 10
MI300 gfx942 10
LIST
finish
