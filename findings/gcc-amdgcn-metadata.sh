#!/usr/bin/env bash
# Packages: gcc-14-offload-amdgcn 14.2.0-19, llvm-22 1:22.1.8-1~deb13u5 (Debian trixie). Date: 2026-11-29.
#
# Seen: GCC's objects for AMD GPUs say in the ELF header that they are of code object version 4 (ABI version 2), and
# have metadata of version 3: `amdhsa.version` is 1.0 and `amdhsa.target` is absent. crt0.o, the start file, holds two
# kernels, _init_array and _fini_array, which libgomp's plugin looks for by name. Each has a metadata note of its own,
# with `.kernarg_segment_align` 0, no bytes of arguments though the descriptor asks for the pointer to them, and all
# 65536 bytes of LDS. `.wavefront_size` is 64 on gfx1030 and gfx1100 too. llvm-readelf prints all this without
# complaint.
#
# Matters to: loaders and emulators: what LLVM's description calls required may be missing, and an alignment may be zero;
# a kernel of gfx1100 is not wave32 because clang's are.
# Documentation: LLVM's "User Guide for AMDGPU Backend", code object V4 metadata: `amdhsa.version` is 1, 1, `amdhsa.target`
# is required, and `.kernarg_segment_align` must be a power of two.
source "$(dirname "$0")/common.bash"
debian gcc trixie gcc-14-offload-amdgcn=14.2.0-19
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
echo "gcc-14-offload-amdgcn 14.2.0-19"
run llvm llvm-readelf --version | sed -n 's/^ *//; /version/p'

folder=$work/gcc/usr/lib/gcc/x86_64-linux-gnu/14/accel/amdgcn-amdhsa
for chip in gfx906 gfx90a gfx1030 gfx1100; do
    file=$folder/$chip/crt0.o
    run llvm llvm-readelf -n "$file" >"$work/notes"
    value() { { sed -n "s/^[- ]*$1: *//p" "$work/notes" | grep . || echo none; } | sort -u | paste -sd' '; }
    compare "$chip: ABI version" "2, which is V4" "2" "$(run llvm llvm-readelf -h "$file" | sed -n 's/ *ABI Version: *//p')"
    compare "$chip: amdhsa.version" "1 1" "1 0" "$(grep -A2 '^amdhsa.version' "$work/notes" | sed -n 's/^ *- //p' | head -2 | paste -sd' ')"
    compare "$chip: amdhsa.target" "amdgcn-amd-amdhsa--$chip" none "$(value amdhsa.target)"
    compare "$chip: metadata notes" 1 2 "$(grep -c 'NT_AMDGPU_METADATA' "$work/notes")"
    compare "$chip: .kernarg_segment_align" "a power of two" 0 "$(value .kernarg_segment_align)"
    compare "$chip: .kernarg_segment_size" "the bytes of its arguments" 0 "$(value .kernarg_segment_size)"
    compare "$chip: kernels with .amdhsa_user_sgpr_kernarg_segment_ptr" 0 2 \
        "$(run llvm llvm-objdump -d -j .rodata "$file" | grep -c 'kernarg_segment_ptr 1')"
    compare "$chip: .group_segment_fixed_size" "what the kernel uses" 65536 "$(value .group_segment_fixed_size)"
    compare "$chip: .wavefront_size" "64 for gfx9, 32 for the others" 64 "$(value .wavefront_size)"
done
finish
