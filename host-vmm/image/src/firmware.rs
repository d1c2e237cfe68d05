//! Firmware files for the stock driver: headers without firmware.
//!
//! The driver reads the headers and hands the rest to the device, which never looks at it. So a file needs a header that the
//! driver takes, and a payload of any bytes. Versions are those that Linux and ROCm choose features by.
//!
//! Layouts: Linux `drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.h`, `*_firmware_header_v*`; everything is little endian.

/// Bytes of `common_firmware_header`.
const COMMON: usize = 32;
/// Bytes of a section of a payload; the firmware of a block is one of them, or several.
const SECTION: u32 = 256;
/// Beginning of each section.
const TEXT: &[u8] = b"Belfry: a header without firmware\n";

/// A firmware file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stub {
    /// Name below the kernel's firmware directories.
    pub name: &'static str,
    /// Contents.
    pub content: Vec<u8>,
}

/// A field of a header after the common one.
#[derive(Debug, Clone, Copy)]
enum Field {
    /// A value.
    Value(u32),
    /// Bytes of a section.
    Size,
    /// Offset of a section from the beginning of the file.
    At(u32),
    /// Offset of a section from the beginning of the payload.
    Within(u32),
}

use Field::{At, Size, Value, Within};

/// One row of the table.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Version of the header: major, minor.
    header: (u16, u16),
    /// Version of the block: major, minor.
    ip: (u16, u16),
    /// `ucode_version`.
    version: u32,
    /// Sections of the payload.
    sections: u32,
    fields: &'static [Field],
}

/// Types of `psp_fw_type`, in the order in which a driver hands them over.
const SOS: u32 = 1;
const SYS_DRV: u32 = 2;
const KDB: u32 = 3;
const TOC: u32 = 4;
const SPL: u32 = 5;
/// Type of `ta_fw_type`: the driver of applications.
const ASD: u32 = 1;

/// `gfx_firmware_header_v2_0`: feature version, code, data, start address.
const RS64: &[Field] = &[Value(32), Size, At(0), Size, At(1), Value(0), Value(0)];

/// Everything that a Navi 31 needs.
const TABLE: &[Row] = &[
    Row {
        name: "amdgpu/psp_13_0_0_sos.bin",
        header: (2, 0),
        ip: (13, 0),
        version: 0x0021_0000,
        sections: 5,
        fields: &[
            Value(5),
            Value(KDB),
            Value(1),
            Within(0),
            Size,
            Value(SPL),
            Value(1),
            Within(1),
            Size,
            Value(SYS_DRV),
            Value(1),
            Within(2),
            Size,
            Value(SOS),
            Value(0x0021_0000),
            Within(3),
            Size,
            Value(TOC),
            Value(1),
            Within(4),
            Size,
        ],
    },
    Row {
        name: "amdgpu/psp_13_0_0_ta.bin",
        header: (2, 0),
        ip: (13, 0),
        version: 1,
        sections: 1,
        fields: &[Value(1), Value(ASD), Value(0x2100_0000), Within(0), Size],
    },
    Row {
        name: "amdgpu/smu_13_0_0.bin",
        header: (2, 1),
        ip: (13, 0),
        version: 0x004e_8700,
        sections: 1,
        // ucode_start_addr, pptable_count, pptable_entry_offset.
        fields: &[Value(0), Value(0), Value(0)],
    },
    Row {
        name: "amdgpu/gc_11_0_0_pfp.bin",
        header: (2, 0),
        ip: (11, 0),
        version: 2710,
        sections: 2,
        fields: RS64,
    },
    Row {
        name: "amdgpu/gc_11_0_0_me.bin",
        header: (2, 0),
        ip: (11, 0),
        version: 2540,
        sections: 2,
        fields: RS64,
    },
    Row {
        name: "amdgpu/gc_11_0_0_mec.bin",
        header: (2, 0),
        ip: (11, 0),
        version: 2790,
        sections: 2,
        fields: RS64,
    },
    Row {
        name: "amdgpu/gc_11_0_0_rlc.bin",
        header: (2, 3),
        ip: (11, 0),
        version: 1,
        sections: 8,
        fields: &[
            // v2.0: feature version, jump table, and 6 places of the direct path; lists of registers, which are empty.
            Value(1),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            Value(0),
            At(0),
            Value(0),
            At(0),
            Value(0),
            At(0),
            Value(0),
            At(0),
            // v2.1: direct list; control, GPM and SRM lists with their versions.
            Value(0),
            Value(1),
            Value(1),
            Size,
            At(1),
            Value(1),
            Value(1),
            Size,
            At(2),
            Value(1),
            Value(1),
            Size,
            At(3),
            // v2.2: IRAM, DRAM.
            Size,
            At(4),
            Size,
            At(5),
            // v2.3: RLCP, RLCV.
            Value(1),
            Value(1),
            Size,
            At(6),
            Value(1),
            Value(1),
            Size,
            At(7),
        ],
    },
    Row {
        name: "amdgpu/gc_11_0_0_imu.bin",
        header: (1, 0),
        ip: (11, 0),
        version: 1,
        sections: 2,
        fields: &[Size, At(0), Size, At(1)],
    },
    Row {
        name: "amdgpu/gc_11_0_0_mes_2.bin",
        header: (1, 0),
        ip: (11, 0),
        version: 0x84,
        sections: 2,
        fields: MES,
    },
    Row {
        name: "amdgpu/gc_11_0_0_mes1.bin",
        header: (1, 0),
        ip: (11, 0),
        version: 0x84,
        sections: 2,
        fields: MES,
    },
    Row {
        name: "amdgpu/sdma_6_0_0.bin",
        header: (2, 0),
        ip: (6, 0),
        version: 21,
        sections: 2,
        // Feature version; context thread: size, jump table; control thread: offset, size, jump table.
        fields: &[Value(60), Size, Value(0), Value(0), At(1), Size, Value(0), Value(0)],
    },
];

/// `mes_firmware_header_v1_0`: code with its version, data with its version, start addresses.
const MES: &[Field] =
    &[Value(0x84), Size, At(0), Value(0x84), Size, At(1), Value(0), Value(0), Value(0), Value(0)];

impl Row {
    fn content(&self) -> Vec<u8> {
        let header = COMMON + 4 * self.fields.len();
        let payload = header.next_multiple_of(SECTION as usize) as u32;
        let bytes = self.sections * SECTION;
        let mut content = Vec::with_capacity((payload + bytes) as usize);
        let mut put = |value: u32| content.extend(value.to_le_bytes());
        let pair = |(low, high): (u16, u16)| u32::from(low) | u32::from(high) << 16;
        put(payload + bytes);
        put(header as u32);
        put(pair(self.header));
        put(pair(self.ip));
        put(self.version);
        put(bytes);
        put(payload);
        // No driver compares the checksum.
        put(0);
        for field in self.fields {
            put(match *field {
                Value(value) => value,
                Size => SECTION,
                At(section) => payload + section * SECTION,
                Within(section) => section * SECTION,
            });
        }
        content.resize(payload as usize, 0);
        for section in 1..=self.sections {
            content.extend(TEXT);
            content.resize((payload + section * SECTION) as usize, 0);
        }
        content
    }
}

/// Makes the files of all chips whose stock driver has them.
#[must_use]
pub fn stubs() -> Vec<Stub> {
    TABLE.iter().map(|row| Stub { name: row.name, content: row.content() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(content: &[u8], offset: usize) -> u32 {
        u32::from_le_bytes(content[offset..offset + 4].try_into().unwrap())
    }

    #[test]
    fn common_headers_say_what_is_in_the_file() {
        for Stub { name, content } in stubs() {
            // The one check of amdgpu_ucode_validate.
            assert_eq!(at(&content, 0) as usize, content.len(), "{name}");
            let (bytes, payload) = (at(&content, 20) as usize, at(&content, 24) as usize);
            assert!(at(&content, 4) as usize <= payload && payload + bytes == content.len(), "{name}");
            assert!(content[payload..].starts_with(TEXT), "{name}");
        }
    }

    #[test]
    fn sections_lie_in_the_payload_and_do_not_overlap() {
        for row in TABLE {
            let content = row.content();
            let payload = at(&content, 24);
            let mut found: Vec<u32> = row
                .fields
                .iter()
                .enumerate()
                .filter_map(|(number, field)| {
                    let value = at(&content, COMMON + 4 * number);
                    match field {
                        At(_) => Some(value),
                        Within(_) => Some(payload + value),
                        Value(_) | Size => None,
                    }
                })
                .collect();
            found.sort_unstable();
            found.dedup();
            assert!(found.iter().all(|&start| (start + SECTION) as usize <= content.len()), "{}", row.name);
            assert!(found.len() <= row.sections as usize, "{}", row.name);
        }
    }

    #[test]
    fn places_of_fields_are_those_of_linux() {
        let of = |name: &str| {
            let stub = stubs().into_iter().find(|stub| stub.name == name).expect("it is there");
            stub.content
        };
        // mes_ucode_version, mes_ucode_data_size_bytes.
        let mes = of("amdgpu/gc_11_0_0_mes_2.bin");
        assert_eq!((at(&mes, 32), at(&mes, 48), mes.len()), (0x84, SECTION, 768));
        // rlcv_ucode_offset_bytes is the last field of version 2.3: 8 + 18 + 13 + 4 + 8 dwords.
        let rlc = of("amdgpu/gc_11_0_0_rlc.bin");
        assert_eq!(at(&rlc, 4), 4 * (8 + 18 + 13 + 4 + 8));
        assert_eq!(at(&rlc, 4 * (8 + 18 + 13 + 4 + 8) - 4), at(&rlc, 24) + 7 * SECTION);
        // psp_fw_bin_count, and the type of the first.
        let sos = of("amdgpu/psp_13_0_0_sos.bin");
        assert_eq!((at(&sos, 32), at(&sos, 36), at(&sos, 44)), (5, KDB, 0));
        // ctl_ucode_offset.
        let sdma = of("amdgpu/sdma_6_0_0.bin");
        assert_eq!(at(&sdma, 48), at(&sdma, 24) + SECTION);
        // A MEC before 509 would need atomics of the bus.
        assert!(at(&of("amdgpu/gc_11_0_0_mec.bin"), 16) >= 509);
    }
}
