#!/usr/bin/env bash
# Packages: libamd-comgr2 6.0+git20231212.4510c28+dfsg-3+b2, llvm-17 1:17.0.6-22+b2, python3 3.13.5-1 (Debian trixie).
# Date: 2026-11-29.
#
# Seen: the table of chips that comgr gives out (amd_comgr_get_isa_metadata) and the LLVM that comgr is linked with do not
# agree on registers and waves. Divide TotalNumVGPRs by the registers of a kernel, rounded up to VGPRAllocGranule, and
# the result should be the waves of a SIMD that LLVM's "Occupancy" gives. It is so for gfx906. For gfx90a and gfx942
# comgr has 256 registers in steps of 4 where the SIMD has 512 in steps of 8; for gfx1010 and gfx1030 it has 256 in
# place of 1024, and for gfx1151 it has 1024 in place of 1536, though it has those for gfx1100. MaxWavesPerCU
# divided by EUsPerCU is 10 for all chips; LLVM has 8 for gfx90a and gfx942, and 16 for the later ones.
#
# Matters to: tools and device models that take their limits from comgr in place of a table of their own.
# Documentation: amd_comgr.h: the metadata of an ISA; LLVM's "User Guide for AMDGPU Backend", VGPR granules of
# GRANULATED_WORKITEM_VGPR_COUNT: 8 for gfx90a and gfx942.
source "$(dirname "$0")/common.bash"
debian rocm trixie libamd-comgr2=6.0+git20231212.4510c28+dfsg-3+b2 llvm-17=1:17.0.6-22+b2 python3=3.13.5-1
run rocm llc --version | sed -n 's/^ *//; /version/p'
echo "libamd-comgr2 6.0+git20231212.4510c28"

# The root's own interpreter, as its library needs the root's C library.
PYTHONHOME=$work/rocm/usr PYTHONDONTWRITEBYTECODE=1 run rocm python3.13 - >"$work/table" <<'PY'
from ctypes import CDLL, CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
comgr = CDLL("libamd_comgr.so.2")

class Node(Structure):
    _fields_ = [("handle", c_uint64)]

def text(node):
    size = c_size_t()
    assert comgr.amd_comgr_get_metadata_string(node, byref(size), None) == 0
    buffer = create_string_buffer(size.value)
    assert comgr.amd_comgr_get_metadata_string(node, byref(size), buffer) == 0
    return buffer.value.decode()

for chip in ("gfx906", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1102", "gfx1151"):
    root = Node()
    assert comgr.amd_comgr_get_isa_metadata(c_char_p(b"amdgcn-amd-amdhsa--" + chip.encode()), byref(root)) == 0
    values = []
    for key in (b"TotalNumVGPRs", b"VGPRAllocGranule", b"MaxWavesPerCU", b"EUsPerCU"):
        node = Node()
        assert comgr.amd_comgr_metadata_lookup(root, c_char_p(key), byref(node)) == 0
        values.append(text(node))
    print(chip, *values)
PY

for last in 0 95 127; do
    printf 'define amdgpu_kernel void @k%d() #0 {\n  call void asm sideeffect "", "~{v%d}"()\n  ret void\n}\n' $((last + 1)) "$last"
done >"$work/k.ll"
echo 'attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }' >>"$work/k.ll"
llvm_waves() { # CPU: waves of a SIMD with kernels of 1, 96 and 128 registers
    run rocm llc -mtriple=amdgcn-amd-amdhsa -mcpu="$1" "$work/k.ll" -o - | sed -n 's/^; Occupancy: //p' | paste -sd' '
}
comgr_waves() { # CPU: the same by comgr's numbers
    local total step waves units most used now all=()
    read -r total step waves units <<<"$(sed -n "s/^$1 //p" "$work/table")"
    most=$((waves / units))
    for used in 1 96 128; do
        now=$((total / ((used + step - 1) / step * step)))
        all+=($((now < most ? now : most)))
    done
    echo "${all[*]}"
}
while read -r chip comgr llvm; do
    compare "$chip: waves with 1, 96 and 128 registers, by LLVM" "${llvm//,/ }" "${llvm//,/ }" "$(llvm_waves "$chip")"
    compare "$chip: the same, by comgr" "${llvm//,/ }" "${comgr//,/ }" "$(comgr_waves "$chip")"
done <<'LIST'
gfx906 10,2,2 10,2,2
gfx90a 10,2,2 8,5,4
gfx942 10,2,2 8,5,4
gfx1010 10,2,2 16,10,8
gfx1030 10,2,2 16,10,8
gfx1100 10,10,10 16,16,10
gfx1102 10,10,8 16,10,8
gfx1151 10,10,8 16,16,10
LIST
finish
