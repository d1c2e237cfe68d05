#!/usr/bin/env bash
# Packages: dissect.hypervisor 3.21 with dissect.util 3.24, dissect.cstruct 4.7 and defusedxml 0.7.1 (PyPI),
# qemu-utils 1:10.0.13+ds-0+deb13u1 (Debian trixie). Date: 2026-11-29.
#
# Seen: the reader of qcow2 images in dissect.hypervisor moves data when the backing file is shorter than the image, as it
# is after `qemu-img resize` of an overlay. What lies behind the end of the backing file gives no bytes instead of zeros, so
# that one read over it joins what is before and after: data that was written at 3 MiB is found at 1 MiB, and the image of 4 MiB
# is 1 MiB and 64 KiB long, though its size says 4 MiB. A read that begins at 3 MiB is right. Nothing is raised.
#
# Matters to: tools that search disks of virtual machines with it; those who check an own writer of qcow2 by a second reader.
# Documentation: QEMU's "Qcow2 Image File Format": a backing file may be shorter, and the rest reads as zeros.
source "$(dirname "$0")/common.bash"
debian qemu trixie qemu-utils=1:10.0.13+ds-0+deb13u1
python dissect.hypervisor==3.21 dissect.util==3.24 dissect.cstruct==4.7 defusedxml==0.7.1
run qemu qemu-img --version | sed -n 1p
run_python -c 'import importlib.metadata as m; print("dissect.hypervisor", m.version("dissect.hypervisor"))'

read_image() { # FILE OFFSET LENGTH: how many bytes are read, and where the first 0xbb is
    run_python - "$work/$1" "$2" "$3" <<'PY'
import sys
from pathlib import Path
from dissect.hypervisor.disk.qcow2 import QCow2
try:
    image = QCow2(Path(sys.argv[1]))
    stream = image.open()
    stream.seek(int(sys.argv[2]))
    data = stream.read(int(sys.argv[3]))
    print(f"size {image.size}, {len(data)} bytes, data at {int(sys.argv[2]) + data.find(0xbb)}")
except ValueError as error:
    print(f"ValueError: {error}")
PY
}
by_qemu() { # FILE: the same by qemu-img
    run qemu qemu-img convert -O raw "$work/$1" "$work/raw"
    python3 -c 'import sys; data = open(sys.argv[1], "rb").read(); print(f"size {len(data)}, {len(data)} bytes, data at {data.find(0xbb)}")' "$work/raw"
}
io() { run qemu qemu-io "$@" >/dev/null; }

run qemu qemu-img create -q -f raw "$work/base.raw" 1M
run qemu qemu-img create -q -f qcow2 -b base.raw -F raw "$work/overlay.qcow2"
run qemu qemu-img resize -q "$work/overlay.qcow2" 4M
io -c 'write -P 0xbb 3M 64k' "$work/overlay.qcow2"
right="size 4194304, 4194304 bytes, data at 3145728"
compare "qemu-img, overlay of 4 MiB on 1 MiB" "$right" "$right" "$(by_qemu overlay.qcow2)"
compare "dissect, the same" "$right" "size 4194304, 1114112 bytes, data at 1048576" "$(read_image overlay.qcow2 0 4194304)"
compare "dissect, from 3 MiB" "size 4194304, 65536 bytes, data at 3145728" "size 4194304, 65536 bytes, data at 3145728" \
    "$(read_image overlay.qcow2 3145728 65536)"
run qemu qemu-img rebase -q -u -b '' "$work/overlay.qcow2"
compare "dissect, without the backing file" "$right" "$right" "$(read_image overlay.qcow2 0 4194304)"

finish
