#!/usr/bin/env bash
# Packages: hashcat 6.2.6+ds2-1, clang-17 1:17.0.6-22+b2 (Debian trixie). Date: 2026-11-30.
#
# Seen: hashcat builds its kernels for HIP with the option -flegacy-pass-manager, which it has as a fixed part of its options.
# The compiler behind HIP 5.7.1 of the same Debian release is clang 17, and clang dropped that option after version 14: it is
# an unknown argument, an error. So hashcat's HIP backend builds no kernel there (hiprtcCompileProgram() gives
# HIPRTC_ERROR_COMPILATION), and hashcat tries HIP before OpenCL. With --backend-ignore-hip it works by OpenCL.
#
# Matters to: users of hashcat with an AMD card on Debian 13; packagers of either.
# Documentation: hashcat's "AMD HIP: ROCm 5.0 or later" among its requirements.
source "$(dirname "$0")/common.bash"
debian root trixie hashcat=6.2.6+ds2-1 clang-17=1:17.0.6-22+b2
run root clang-17 --version | sed -n 1p

option=$(grep -ao -- '-flegacy-pass-manager' "$work/root/usr/bin/hashcat" | sort -u)
compare "hashcat's options for HIP" "options that HIP's compiler has" '-flegacy-pass-manager' "$option"

printf '__attribute__((global)) void k() {}\n' >"$work/k.hip"
compiled() { # OPTION...: the first error of HIP's compiler
    run root clang-17 -x hip --cuda-device-only --offload-arch=gfx1100 -nocudainc -nocudalib "$@" -S "$work/k.hip" \
        -o "$work/k.s" 2>&1 | grep -o 'error: .*' | sed -n 1p || true
}
compare 'clang 17 with -nocudalib alone' 'no error' '' "$(compiled)"
compare 'clang 17 with hashcat'"'"'s option' 'no error' "error: unknown argument: '-flegacy-pass-manager'" \
    "$(compiled -flegacy-pass-manager)"
finish
