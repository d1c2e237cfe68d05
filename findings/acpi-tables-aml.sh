#!/usr/bin/env bash
# Packages: acpi_tables 0.2.1 (a crate), acpica-tools 20250404-1 (Debian trixie, iasl). Date: 2026-11-29.
#
# Seen: two objects of the acpi_tables crate are not what their names say when iasl reads them. A PowerResource begins
# with 84 5b in place of 5b 84: iasl stops with "Unknown opcode". A Register descriptor has 12 bytes and says 0x12, which
# is 18: alone in a ResourceTemplate its length reaches behind the end, and with a Memory32Fixed after it, it swallows
# part of that. iasl then shows a buffer of bytes and no resource template, and reports no error. IO, Interrupt and
# Memory32Fixed descriptors are read back as they were meant.
#
# Matters to: virtual machine monitors that describe devices with it; the guest's kernel reads
# the same bytes as iasl.
# Documentation: the ACPI specification: PowerResOp is ExtOpPrefix 0x84; the Generic Register Descriptor has length 0x000C.
source "$(dirname "$0")/common.bash"
need cargo od
debian acpi trixie acpica-tools=20250404-1
program_with acpi_tables 0.2.1
cat >"$work/crate/src/main.rs" <<'R'
use acpi_tables::aml::{IO, Interrupt, Memory32Fixed, Name, PowerResource, Register, ResourceTemplate};
use acpi_tables::{gas, sdt::Sdt, Aml};

fn main() {
    let port = gas::GAS::new(gas::AddressSpace::SystemIo, 8, 0, gas::AccessSize::ByteAccess, 0xb2);
    let register = Register::new(port);
    let memory = Memory32Fixed::new(true, 0xfed0_0000, 0x400);
    let (io, interrupt) = (IO::new(0x60, 0x60, 1, 1), Interrupt::new(true, true, false, false, 9));
    let good = Name::new("TEST".into(), &ResourceTemplate::new(vec![&io, &interrupt, &memory]));
    let bad = Name::new("TEST".into(), &ResourceTemplate::new(vec![&register, &memory]));
    let power = PowerResource::new("PWR1".into(), 1, 2, vec![]);
    let mut bytes = Vec::new();
    let (name, object): (_, &dyn Aml) = match std::env::args().nth(1).as_deref() {
        Some("good") => ("good", &good),
        Some("register") => ("register", &bad),
        _ => ("power", &power),
    };
    object.to_aml_bytes(&mut bytes);
    let mut table = Sdt::new(*b"DSDT", 36, 2, *b"FINDIN", *b"GSFINDIN", 1);
    table.append_slice(&bytes);
    std::fs::write(format!("{name}.aml"), table.as_slice()).unwrap();
}
R
(cd "$work/crate" && cargo build -q --target-dir "$work/target") || missing "acpi_tables =0.2.1"
echo "acpi_tables 0.2.1"
run acpi iasl -v | sed -n 's/^ASL+ /iasl: ASL+ /p'

cd "$work"
read_back() { # OBJECT: the errors of iasl, and the names of the objects that it found
    "$work/target/debug/finding" "$1"
    run acpi iasl -d "$1.aml" >"$1.log" 2>&1 || true
    { grep -o 'Unknown opcode 0x[0-9A-F]*' "$1.log" | sort -u
      grep -Eo '^ +(Name \(TEST, [A-Za-z]+|IO|Interrupt|Memory32Fixed|Register|PowerResource)' "$1.dsl" 2>/dev/null; } |
        sed 's/^ *//' | paste -sd' '
}
start() { od -An -v -tx1 -j36 "$1.aml" | tr -d '\n' | sed 's/^ //' | cut -d' ' -f"$2"; }
compare "IO, Interrupt, Memory32Fixed" "Name (TEST, ResourceTemplate IO Interrupt Memory32Fixed" \
    "Name (TEST, ResourceTemplate IO Interrupt Memory32Fixed" "$(read_back good)"
compare "Register, Memory32Fixed" "Name (TEST, ResourceTemplate Register Memory32Fixed" "Name (TEST, Buffer" "$(read_back register)"
compare "Register: tag and length" "82 0c 00" "82 12 00" "$(start register 10-12)"
compare "PowerResource" PowerResource "Unknown opcode 0x5B08" "$(read_back power)"
compare "PowerResource: first bytes" "5b 84" "84 5b" "$(start power 1-2)"
finish
