"""Copies words through the GPU by HIP's C interface alone."""
import array
import ctypes
import sys


def hip(name, *arguments):
    error = getattr(library, name)(*arguments)
    if error != 0:
        sys.exit(f"{name} gave {error}")


library = ctypes.CDLL("libamdhip64.so.5")
count = ctypes.c_int()
hip("hipGetDeviceCount", ctypes.byref(count))
assert count.value == 1, count.value
# hipDeviceProp_t is larger than this in no release.
properties = ctypes.create_string_buffer(16384)
hip("hipGetDeviceProperties", properties, 0)
assert b"gfx1100" in properties.raw

WORDS = 65536
words = array.array("I", ((i * 2654435761) & 0xFFFFFFFF for i in range(WORDS)))
back = array.array("I", bytes(WORDS * 4))
first, second = ctypes.c_void_p(), ctypes.c_void_p()
size = ctypes.c_size_t(WORDS * 4)
hip("hipMalloc", ctypes.byref(first), size)
hip("hipMalloc", ctypes.byref(second), size)
hip("hipMemcpy", first, ctypes.c_void_p(words.buffer_info()[0]), size, 1)
hip("hipMemcpy", second, first, size, 3)
hip("hipMemset", first, 0, size)
hip("hipMemcpy", ctypes.c_void_p(back.buffer_info()[0]), second, size, 2)
wrong = [i for i in range(WORDS) if words[i] != back[i]]
assert not wrong, f"{len(wrong)} words differ, the first at {wrong[0]}"
hip("hipFree", first)
hip("hipFree", second)
print(f"gfx1100: {WORDS} words verified")
