"""Finds the GPU in sysfs in the ways Python programs do: pathlib, glob, os.walk, scandir, stat, ioctl."""
import fcntl
import glob
import os
import pathlib
import stat
import struct

NODES = pathlib.Path("/sys/class/kfd/kfd/topology/nodes")
gpu = None
for node in sorted(NODES.iterdir()):
    properties = dict(line.split() for line in (node / "properties").read_text().splitlines())
    if int(properties["simd_count"]) > 0:
        gpu = properties
        assert int((node / "gpu_id").read_text()) != 0
assert gpu, "no node has SIMDs"
print("gfx_target_version", gpu["gfx_target_version"])
assert int(gpu["vendor_id"]) == 0x1002 and int(gpu["device_id"]) == 0x744C, gpu

assert sorted(os.listdir(NODES)) == sorted(entry.name for entry in os.scandir(NODES))
assert sorted(glob.glob(str(NODES / "*"))) == sorted(str(path) for path in NODES.iterdir())
walked = [name for _, _, names in os.walk(NODES) for name in names]
assert walked.count("properties") >= 2 + 1, walked

minor = gpu["drm_render_minor"]
node = f"/dev/dri/renderD{minor}"
facts = os.stat(node)
assert stat.S_ISCHR(facts.st_mode) and os.major(facts.st_rdev) == 226 and os.minor(facts.st_rdev) == int(minor)
print(node)

# AMDKFD_IOC_GET_VERSION
with open("/dev/kfd", "r+b", buffering=0) as kfd:
    answer = fcntl.ioctl(kfd, 0x80084B01, bytes(8))
major, minor = struct.unpack("II", answer)
assert major == 1 and minor >= 6, (major, minor)
print("KFD interface", f"{major}.{minor}")
