"""Calls HIP by ctypes: allocates, copies there and back, waits for events, and checks each byte."""

import ctypes
import glob
import sys

library = next(iter(sorted(glob.glob("/usr/lib/x86_64-linux-gnu/libamdhip64.so.*"))), "libamdhip64.so")
hip = ctypes.CDLL(library)
SIZE = 1 << 20


def check(status, what):
    if status:
        sys.exit(f"{what}: error {status}")


memory, event = ctypes.c_void_p(), ctypes.c_void_p()
check(hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(SIZE)), "hipMalloc")
check(hip.hipEventCreate(ctypes.byref(event)), "hipEventCreate")
for turn in range(50):
    data = bytes([turn]) * SIZE
    back = ctypes.create_string_buffer(SIZE)
    check(hip.hipMemcpy(memory, data, ctypes.c_size_t(SIZE), 1), "hipMemcpy to the GPU")
    check(hip.hipMemset(memory, 255 - turn, ctypes.c_size_t(SIZE // 2)), "hipMemset")
    check(hip.hipEventRecord(event, None), "hipEventRecord")
    check(hip.hipEventSynchronize(event), "hipEventSynchronize")
    check(hip.hipMemcpy(back, memory, ctypes.c_size_t(SIZE), 2), "hipMemcpy from the GPU")
    if back.raw != bytes([255 - turn]) * (SIZE // 2) + data[SIZE // 2 :]:
        sys.exit(f"turn {turn}: other bytes came back")
print("50 turns verified")
