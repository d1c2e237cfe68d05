#!/usr/bin/env bash
# Packages: llvm-22 and clang-22 1:22.1.8-1~deb13u5, llvm-19 and clang-19 1:19.1.7-3+b1 (Debian trixie). Date: 2026-11-30.
#
# Seen: `-Rpass-analysis=kernel-resource-usage` of clang 22 has names of symbols where numbers belong, for a kernel that
# calls through a pointer: "VGPRs: k.num_vgpr", and as occupancy a long term with functions such as max and
# extrasgprs. A kernel beside it without such a call has numbers. The comments of the assembly (`; NumVgprs:`) and the record
# of -fsave-optimization-record are alike. The numbers are known by the end of the same run: the metadata has them, and an
# object has `k.num_vgpr` as an absolute symbol. clang 19 prints numbers. The first line has another name since: SGPRs in
# 19, TotalSGPRs in 22.
#
# Matters to: scripts that read registers and occupancy from these lines, and stop at such kernels or leave them out. A
# call of a function pointer is enough.
# Documentation: none but the examples: clang/test/Frontend/amdgcn-machine-analysis-remarks.cl, where each line has a number.
source "$(dirname "$0")/common.bash"
debian new trixie llvm-22=1:22.1.8-1~deb13u5 clang-22=1:22.1.8-1~deb13u5
debian old trixie llvm-19=1:19.1.7-3+b1 clang-19=1:19.1.7-3+b1
for root in old new; do run $root clang --version | sed -n 1p; done

cat >"$work/k.c" <<'C'
__attribute__((noinline)) int wide(int a) { asm volatile("" ::: "v90", "s60"); return a; }
__attribute__((amdgpu_kernel)) void direct(int *p) { *p = wide(*p); }
__attribute__((amdgpu_kernel)) void indirect(int *p, int (*f)(int)) { *p = f(*p); }
C
for root in old:19 new:22; do
    run ${root%:*} clang -resource-dir "$work/${root%:*}/usr/lib/llvm-${root#*:}/lib/clang/${root#*:}" -nogpulib -O2 -S \
        --target=amdgcn-amd-amdhsa -mcpu=gfx1100 -Rpass-analysis=kernel-resource-usage "$work/k.c" -o "$work/${root%:*}.s" \
        2>"$work/${root%:*}.remarks"
done
remark() { # ROOT KERNEL LINE
    sed -n "/Function Name: $2 /,/LDS Size/s/.*remark: *$3: \(.*\) \[-Rpass.*/\1/p" "$work/$1.remarks"
}
metadata() { # ROOT KERNEL KEY
    sed -n "/^amdhsa.kernels/,\$p" "$work/$1.s" | sed -n "/\.name: *$2\$/,/\.wavefront_size/s/ *\.$3: *//p"
}
compare "22, direct: VGPRs" 91 91 "$(remark new direct VGPRs)"
compare "22, direct: occupancy" 16 16 "$(remark new direct 'Occupancy \[waves\/SIMD\]')"
compare "22, indirect: VGPRs" "$(metadata new indirect vgpr_count)" indirect.num_vgpr "$(remark new indirect VGPRs)"
compare "22, indirect: SGPRs" "$(metadata new indirect sgpr_count)" indirect.numbered_sgpr+2 "$(remark new indirect TotalSGPRs)"
compare "22, indirect: occupancy" 16 "occupancy(16, 24, 1536, 10, 16, max(indirect.numbered_sgpr+extrasgprs(indirect.uses_vcc, \
indirect.uses_flat_scratch, 0), 1, 0), max(totalnumvgprs(indirect.num_agpr, indirect.num_vgpr), 1, 0))" \
    "$(remark new indirect 'Occupancy \[waves\/SIMD\]')"
compare "22, indirect: .vgpr_count and .sgpr_count of the same output" "91 63" "91 63" \
    "$(metadata new indirect vgpr_count) $(metadata new indirect sgpr_count)"
compare "19, indirect: VGPRs, SGPRs and occupancy" "91 63 16" "91 63 16" \
    "$(remark old indirect VGPRs) $(remark old indirect SGPRs) $(remark old indirect 'Occupancy \[waves\/SIMD\]')"
compare "22, indirect: a comment of the assembly" "; NumVgprs: 91" "; NumVgprs: indirect.num_vgpr" \
    "$(sed -n '/^indirect:/,/; Occupancy/s/^\(; NumVgprs: .*\)/\1/p' "$work/new.s")"
finish
