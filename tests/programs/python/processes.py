"""Children of every kind find the GPU: spawned ones and forked ones, several at once."""
import ctypes
import multiprocessing
import subprocess
import sys


def name(_):
    library = ctypes.CDLL("libamdhip64.so.5")
    properties = ctypes.create_string_buffer(16384)
    if library.hipGetDeviceProperties(properties, 0) != 0:
        return "no device"
    return "gfx1100" if b"gfx1100" in properties.raw else "another device"


if __name__ == "__main__":
    said = subprocess.run(["rocminfo"], capture_output=True, text=True, check=True).stdout
    assert "gfx1100" in said, said
    with multiprocessing.get_context("fork").Pool(4) as pool:
        names = pool.map(name, range(4), chunksize=1)
    if set(names) != {"gfx1100"}:
        sys.exit(f"the processes found {names}")
    print(f"{len(names)} processes: gfx1100")
