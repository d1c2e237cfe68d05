"""Copies words between two GPUs by HIP's C interface, both ways, and looks at each card's files."""
import array
import ctypes
import glob
import sys


def hip(name, *arguments):
    error = getattr(library, name)(*arguments)
    if error != 0:
        sys.exit(f"{name} gave {error}")


library = ctypes.CDLL("libamdhip64.so.5")
count = ctypes.c_int()
hip("hipGetDeviceCount", ctypes.byref(count))
assert count.value == 2, count.value

names = set()
for device in range(2):
    name = ctypes.create_string_buffer(64)
    hip("hipDeviceGetPCIBusId", name, 64, device)
    names.add(name.value.decode().lower())
cards = {path.split("/")[-1] for path in glob.glob("/sys/bus/pci/drivers/amdgpu/0000:*")}
assert names == cards and len(names) == 2, (names, cards)

WORDS = 65536
SIZE = ctypes.c_size_t(WORDS * 4)
for near, far in [(0, 1), (1, 0)]:
    can = ctypes.c_int()
    hip("hipDeviceCanAccessPeer", ctypes.byref(can), near, far)
    assert can.value == 1, (near, far)
    words = array.array("I", ((i * 2654435761 + near) & 0xFFFFFFFF for i in range(WORDS)))
    back = array.array("I", bytes(WORDS * 4))
    memory = {}
    for device in (near, far):
        hip("hipSetDevice", device)
        memory[device] = ctypes.c_void_p()
        hip("hipMalloc", ctypes.byref(memory[device]), SIZE)
    hip("hipSetDevice", near)
    hip("hipMemcpy", memory[near], ctypes.c_void_p(words.buffer_info()[0]), SIZE, 1)
    hip("hipMemcpyPeer", memory[far], far, memory[near], near, SIZE)
    hip("hipDeviceSynchronize")
    hip("hipSetDevice", far)
    hip("hipMemcpy", ctypes.c_void_p(back.buffer_info()[0]), memory[far], SIZE, 2)
    wrong = [i for i in range(WORDS) if words[i] != back[i]]
    assert not wrong, f"{len(wrong)} words differ, the first at {wrong[0]}"
    for device in (near, far):
        used = {int(open(path).read()) for path in glob.glob("/sys/class/drm/card?/device/mem_info_vram_used")}
        assert len(used) >= 1 and min(used) > 0, used
        hip("hipFree", memory[device])
print(f"{WORDS} words verified each way")
