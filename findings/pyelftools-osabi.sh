#!/usr/bin/env bash
# Package: pyelftools 0.33 (PyPI). Date: 2026-11-29.
#
# Seen: pyelftools names the OS ABI of an AMDGPU code object ELFOSABI_ARM_AEABI, as it knows one name for the number 64
# and does not look at the machine, which it reads right (EM_AMDGPU). OS ABI values from 64 on belong to the machine: 64
# is HSA for AMDGPU. 65 (PAL) and 66 (Mesa) come out as bare numbers, so only the most common one has a wrong name.
#
# Matters to: tools in Python that sort files by ABI, and reports made with them.
# Documentation: the gABI reserves 64 to 255 for a meaning by architecture; LLVM's "User Guide for AMDGPU Backend" gives
# ELFOSABI_AMDGPU_HSA = 64.
source "$(dirname "$0")/common.bash"
python pyelftools==0.33
run_python -c 'import elftools; print("pyelftools", elftools.__version__)'

header() { # OS-ABI: names of the machine and of the ABI
    run_python - "$1" <<'PY'
import io, struct, sys
from elftools.elf.elffile import ELFFile
ident = b"\x7fELF" + bytes([2, 1, 1, int(sys.argv[1]), 4]) + bytes(7)
rest = struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 0, 0x41, 64, 56, 0, 64, 0, 0)
elf = ELFFile(io.BytesIO(ident + rest))
print(elf["e_machine"], elf["e_ident"]["EI_OSABI"])
PY
}
compare "machine 224, OS ABI 64" "EM_AMDGPU ELFOSABI_AMDGPU_HSA, or 64" "EM_AMDGPU ELFOSABI_ARM_AEABI" "$(header 64)"
compare "machine 224, OS ABI 65" "EM_AMDGPU ELFOSABI_AMDGPU_PAL, or 65" "EM_AMDGPU 65" "$(header 65)"
finish
