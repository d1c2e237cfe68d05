#!/usr/bin/env bash
# Package: llvm-22 1:22.1.8-1~deb13u5 (Debian trixie), llvm-mca. Date: 2026-11-29.
#
# Seen: for the chips of gfx11, llvm-mca lets `s_waitcnt` pass without waiting. After a load with a latency of 320 cycles
# and `s_waitcnt vmcnt(0)`, an addition starts in cycle 3 on gfx1100 and gfx1150, and in cycle 322 on gfx1030. So a block of gfx1100
# code takes the same number of cycles with the wait and without it. On gfx900, gfx942 and gfx1030 it waits.
# gfx1201 errs to the other side: an addition that needs nothing from the load and has no wait before it starts so late
# that it ends with the load. There `s_wait_loadcnt 63` and `s_wait_dscnt 0`, which have nothing to wait for, cost as much
# as `s_wait_loadcnt 0`.
#
# Matters to: those who compare versions of a kernel's loop with llvm-mca, or calibrate a model of time by it: on gfx11
# the cost of memory vanishes, on gfx12 nothing overlaps it.
# Documentation: LLVM 22, AMDGPUCustomBehaviour.h: an s_waitcnt is held back while
# instructions are executing whose counters it waits for; no generation is left out.
source "$(dirname "$0")/common.bash"
debian llvm trixie llvm-22=1:22.1.8-1~deb13u5
run llvm llvm-mca --version | sed -n 's/^ *//; /version/p'

# The cycle in which the last of the lines begins to execute: after "D" for dispatch, one column for a cycle.
start() { # CPU LINE...
    local cpu=$1
    shift
    printf '%s\n' "$@" | run llvm llvm-mca -mtriple=amdgcn-amd-amdhsa -mcpu="$cpu" -iterations=1 -timeline \
        -timeline-max-cycles=0 2>&1 | sed -n "s/^\[0,$(($# - 1))\] *//p" | awk '{ print match($0, /[eE]/) - 1 }'
}
total() { # CPU LINE...: the number of cycles in all
    local cpu=$1
    shift
    printf '%s\n' "$@" | run llvm llvm-mca -mtriple=amdgcn-amd-amdhsa -mcpu="$cpu" -iterations=1 2>&1 |
        sed -n 's/^Total Cycles: *//p'
}
load='global_load_dword v0, v[2:3], off'
add='v_add_f32 v2, v4, v3'
wait='s_waitcnt vmcnt(0)'
for chip in gfx900 gfx942; do
    compare "$chip: the addition starts, without and with $wait" "2 82" "2 82" \
        "$(start $chip "$load" "$add") $(start $chip "$load" "$wait" "$add")"
done
compare "gfx1030: the same" "2 322" "2 322" "$(start gfx1030 "$load" "$add") $(start gfx1030 "$load" "$wait" "$add")"
for chip in gfx1100 gfx1150; do
    compare "$chip: the same" "2 322, as on gfx1030" "2 3" "$(start $chip "$load" "$add") $(start $chip "$load" "$wait" "$add")"
    compare "$chip: cycles in all, without and with $wait" "321 327, as on gfx1030" "321 321" \
        "$(total $chip "$load" "$add") $(total $chip "$load" "$wait" "$add")"
done
scalar='s_load_dword s0, s[2:3], 0'
for chip in gfx1030 gfx1100; do
    recorded=3
    [ $chip = gfx1030 ] && recorded=22
    compare "$chip: the addition starts, after $scalar and s_waitcnt lgkmcnt(0)" 22 $recorded \
        "$(start $chip "$scalar" 's_waitcnt lgkmcnt(0)' "$add")"
done
compare "gfx1201: the addition starts, without a wait" 2 316 "$(start gfx1201 "$load" "$add")"
for wait in 's_wait_loadcnt 0' 's_wait_loadcnt 63' 's_wait_dscnt 0'; do
    expected=3
    [ "$wait" = 's_wait_loadcnt 0' ] && expected=320
    compare "gfx1201: the addition starts, with $wait" $expected 320 "$(start gfx1201 "$load" "$wait" "$add")"
done
finish
