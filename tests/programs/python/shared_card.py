"""Two processes of different containers use one card: namespaces of identities stand for the containers, with `container` also a
directory that may not be written to, and a /dev/shm. The parent looks at the card's memory while a child has some, and after it was
killed. Needs mounts of its own."""
import ctypes
import glob
import os
import signal
import subprocess
import sys
import time

SIZE = 64 << 20


def hip(name, *arguments):
    error = getattr(library, name)(*arguments)
    if error != 0:
        sys.exit(f"{name} gave {error}")


def used():
    with open(glob.glob("/sys/class/drm/card*/device/mem_info_vram_used")[0]) as file:
        return int(file.read())


def mount(*arguments):
    if ctypes.CDLL(None).mount(*arguments, None) != 0:
        sys.exit(f"mount{arguments} failed")


if sys.argv[1:] == ["container"]:
    BIND, READ_ONLY, REMOUNT = 4096, 1, 32
    prepared = os.environb[b"BELFRY_EXEC"]
    mount(prepared, prepared, None, BIND)
    mount(None, prepared, None, BIND | REMOUNT | READ_ONLY)
    mount(b"none", b"/dev/shm", b"tmpfs", 0)
library = ctypes.CDLL("libamdhip64.so.5")
memory = ctypes.c_void_p()
hip("hipMalloc", ctypes.byref(memory), ctypes.c_size_t(SIZE))
if sys.argv[1:] == ["child"]:
    # The child's own processes are as another container's: it is their first.
    assert os.getpid() == 1, os.getpid()
    print("has memory", flush=True)
    time.sleep(60)
    sys.exit("was not killed")

alone = used()
assert SIZE <= alone < 2 * SIZE, alone
namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
child = subprocess.Popen([*namespace, sys.executable, sys.argv[0], "child"], stdout=subprocess.PIPE)
assert child.stdout.readline() == b"has memory\n"
both = used()
assert both >= alone + SIZE, (alone, both)
child.send_signal(signal.SIGKILL)
child.wait()
deadline = time.monotonic() + 30
while used() >= alone + SIZE and time.monotonic() < deadline:
    time.sleep(0.01)
files = [name for name in os.listdir("/dev/shm") if name.startswith("belfry-")]
print("of both:", used() < alone + SIZE, len(files) if sys.argv[1:] else "")
