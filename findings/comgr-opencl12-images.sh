#!/usr/bin/env bash
# Packages: libamd-comgr3 7.0.2+dfsg-3 (Debian sid), with which rocm-opencl-icd 6.4.3 compiles; python3 of sid. Date: 2026-12-01.
#
# Seen: of the precompiled headers that this comgr adds (AMD_COMGR_ACTION_ADD_PRECOMPILED_HEADERS), that of OpenCL C 1.2 has no
# function of images, whether or not __IMAGE_SUPPORT__ is defined for the source; that of OpenCL C 2.0 has them. So an
# OpenCL program that gives clBuildProgram no -cl-std (1.2 is what it gets) and calls read_imagef fails to compile: "use of
# undeclared identifier". Types of images and samplers are known in both. ROCm 5.7's (Debian 13) and 7.2.4's (experimental) compile it.
#
# Matters to: all programs with images that do not ask for OpenCL C 2.0, such as ffmpeg's *_opencl filters, on any card;
# those who look for the fault in the driver.
# Documentation: OpenCL C 1.2, 6.12.14: image functions, where CL_DEVICE_IMAGE_SUPPORT is true.
source "$(dirname "$0")/common.bash"
debian rocm sid libamd-comgr3=7.0.2+dfsg-3 libclang-common-21-dev python3 coreutils
echo "libamd-comgr3 7.0.2+dfsg-3"

# The precompiled headers name files by their places in an installed system.
need unshare chroot
mkdir -p "$work/rocm/tmp"
for folder in lib lib64; do [ -e "$work/rocm/$folder" ] || ln -s "usr/$folder" "$work/rocm/$folder"; done
unshare -rm chroot "$work/rocm" /usr/bin/true || missing "a changed root: neither root nor a user namespace"

# compiles LANGUAGE: what comgr says about a kernel that reads an image, for gfx1100.
compiles() {
    local python
    python=$(cd "$work/rocm/usr/bin" && echo python3.*[0-9])
    unshare -rm chroot "$work/rocm" "/usr/bin/$python" - "$1" -D__IMAGE_SUPPORT__=1 <<'PY'
import re, sys
from ctypes import CDLL, Structure, byref, c_bool, c_char_p, c_int, c_size_t, c_uint64, create_string_buffer

comgr = CDLL("libamd_comgr.so.3")
SOURCE, LOG, ADD_HEADERS, COMPILE = 1, 5, 1, 0xC
KERNEL = b"""constant sampler_t s = CLK_FILTER_NEAREST;
kernel void k(read_only image2d_t i, global float4 *o) { o[0] = read_imagef(i, s, (int2)(0, 0)); }
"""

class Handle(Structure):
    _fields_ = [("handle", c_uint64)]

def call(name, *arguments):
    assert getattr(comgr, "amd_comgr_" + name)(*arguments) == 0, name

def new(name, *arguments):
    handle = Handle()
    call(name, *arguments, byref(handle))
    return handle

sources, info = new("create_data_set"), new("create_action_info")
data = new("create_data", c_int(SOURCE))
call("set_data", data, c_size_t(len(KERNEL)), c_char_p(KERNEL))
call("set_data_name", data, c_char_p(b"k.cl"))
call("data_set_add", sources, data)
call("action_info_set_isa_name", info, c_char_p(b"amdgcn-amd-amdhsa--gfx1100"))
call("action_info_set_language", info, c_int({"1.2": 1, "2.0": 2}[sys.argv[1]]))
options = [option.encode() for option in sys.argv[2:]]
call("action_info_set_option_list", info, (c_char_p * len(options))(*options), c_size_t(len(options)))
call("action_info_set_logging", info, c_bool(True))
headed, compiled = new("create_data_set"), new("create_data_set")
call("do_action", c_int(ADD_HEADERS), info, sources, headed)
status = comgr.amd_comgr_do_action(c_int(COMPILE), info, headed, compiled)
log = new("action_data_get_data", compiled, c_int(LOG), c_size_t(0))
size = c_size_t()
call("get_data", log, byref(size), None)
text = create_string_buffer(size.value + 1)
call("get_data", log, byref(size), text)
errors = re.findall(r"error: (.*)", text.value.decode())
print("compiled" if status == 0 else errors[0])
PY
}

compare "OpenCL C 2.0" "compiled" "compiled" "$(compiles 2.0)"
compare "OpenCL C 1.2" "compiled" "use of undeclared identifier 'read_imagef'" "$(compiles 1.2)"
finish
