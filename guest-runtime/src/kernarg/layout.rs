//! The kernel argument segment.

use super::{ArgumentError, KernelArg};
use crate::code_object::{ArgumentInfo, ArgumentKind, Hidden, KernelInfo};

/// Grid and workgroup of a launch, in work-items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
}

impl Geometry {
    /// Dimensions in use, 1 to 3.
    pub(crate) fn dimensions(&self) -> u16 {
        match (self.grid, self.block) {
            ([_, 1, 1], [_, 1, 1]) => 1,
            ([_, _, 1], [_, _, 1]) => 2,
            _ => 3,
        }
    }
}

/// Values of hidden arguments beside the geometry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HiddenValues {
    pub(crate) queue: u64,
    pub(crate) private_base_hi: u32,
    pub(crate) shared_base_hi: u32,
    pub(crate) shared: u32,
}

/// The segment's bytes and the launch's addition to the kernel's LDS.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of LDS of the workgroup: declared, for `__local` pointers, and asked for at launch.
    pub(crate) group_size: u64,
}

/// Checks the arguments against the metadata and lays them out.
pub(crate) fn lay_out(
    kernel: &KernelInfo,
    args: &[KernelArg],
    geometry: &Geometry,
    values: &HiddenValues,
) -> Result<Segment, ArgumentError> {
    let expected = kernel.explicit_arguments().count();
    if args.len() != expected {
        return Err(ArgumentError::Count { kernel: kernel.name.clone(), expected, given: args.len() });
    }
    let mut bytes = vec![0; kernel.kernarg_size as usize];
    let mut group_size = u64::from(kernel.group_size);
    let mut put = |info: &ArgumentInfo, value: &[u8]| {
        // PANIC: the metadata parser checked that offset and size lie inside the segment.
        let field = &mut bytes[info.offset as usize..][..info.size as usize];
        let size = value.len().min(field.len());
        field[..size].copy_from_slice(&value[..size]);
    };
    for ((index, info), arg) in kernel.explicit_arguments().enumerate().zip(args) {
        check_kind(kernel, index, info, arg)?;
        let value = match arg {
            KernelArg::Scalar(scalar) => scalar.to_bytes(),
            KernelArg::Bytes(value) => value.clone(),
            KernelArg::Buffer { address, .. } => address.to_le_bytes().to_vec(),
            KernelArg::Local(size) => {
                let offset = group_size.next_multiple_of(u64::from(info.pointee_align));
                group_size = offset + u64::from(*size);
                (offset as u32).to_le_bytes().to_vec()
            }
        };
        if value.len() != info.size as usize {
            return Err(ArgumentError::Size {
                kernel: kernel.name.clone(),
                index,
                what: describe(info),
                expected: info.size,
                given: value.len(),
            });
        }
        put(info, &value);
    }
    for info in &kernel.arguments {
        if let ArgumentKind::Hidden(hidden) = info.kind {
            put(info, &hidden_value(hidden, geometry, values).to_le_bytes());
        }
    }
    Ok(Segment { bytes, group_size: group_size + u64::from(values.shared) })
}

/// The value of a hidden argument; smaller fields take its low bytes.
fn hidden_value(hidden: Hidden, geometry: &Geometry, values: &HiddenValues) -> u64 {
    let at = |list: &[u32; 3], axis: usize| list.get(axis).copied().unwrap_or(1);
    match hidden {
        Hidden::BlockCount(axis) => (at(&geometry.grid, axis) / at(&geometry.block, axis)).into(),
        Hidden::GroupSize(axis) => at(&geometry.block, axis).into(),
        Hidden::Remainder(axis) => (at(&geometry.grid, axis) % at(&geometry.block, axis)).into(),
        Hidden::GridDims => geometry.dimensions().into(),
        Hidden::PrivateBase => values.private_base_hi.into(),
        Hidden::SharedBase => values.shared_base_hi.into(),
        Hidden::QueuePtr => values.queue,
        Hidden::DynamicLdsSize => values.shared.into(),
        Hidden::GlobalOffset(_) | Hidden::Zero => 0,
    }
}

fn describe(info: &ArgumentInfo) -> String {
    match (&info.type_name, &info.name) {
        (Some(kind), Some(name)) => format!("{kind} {name}"),
        (Some(kind), None) => kind.clone(),
        (None, Some(name)) => name.clone(),
        (None, None) => "no declaration recorded".to_owned(),
    }
}

fn check_kind(
    kernel: &KernelInfo,
    index: usize,
    info: &ArgumentInfo,
    arg: &KernelArg,
) -> Result<(), ArgumentError> {
    let declared_float = match info.type_name.as_deref() {
        Some("float" | "double" | "half") => Some(true),
        Some(
            "char" | "uchar" | "short" | "ushort" | "int" | "uint" | "long" | "ulong" | "size_t" | "bool",
        ) => Some(false),
        _ => None,
    };
    let (fits, given) = match arg {
        KernelArg::Scalar(scalar) => {
            let float = scalar.is_float();
            let fits =
                info.kind == ArgumentKind::Value && declared_float.is_none_or(|declared| declared == float);
            (fits, if float { "a floating-point number" } else { "an integer" })
        }
        KernelArg::Bytes(_) => (info.kind == ArgumentKind::Value, "bytes"),
        KernelArg::Buffer { .. } => (info.kind == ArgumentKind::Buffer, "a buffer"),
        KernelArg::Local(_) => (info.kind == ArgumentKind::Local, "LDS"),
    };
    if fits {
        return Ok(());
    }
    let expected = match (&info.kind, declared_float) {
        (ArgumentKind::Value, Some(true)) => "a floating-point number".to_owned(),
        (ArgumentKind::Value, Some(false)) => "an integer".to_owned(),
        (ArgumentKind::Value, None) => "a value".to_owned(),
        (ArgumentKind::Buffer, _) => "a buffer".to_owned(),
        (ArgumentKind::Local, _) => "LDS".to_owned(),
        (ArgumentKind::Unsupported(kind), _) => format!("of a kind this runtime cannot pass (`{kind}`)"),
        (ArgumentKind::Hidden(_), _) => "filled by the runtime".to_owned(),
    };
    Err(ArgumentError::Kind { kernel: kernel.name.clone(), index, what: describe(info), expected, given })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(offset: u32, size: u32, kind: ArgumentKind, type_name: Option<&str>) -> ArgumentInfo {
        let type_name = type_name.map(ToOwned::to_owned);
        ArgumentInfo { name: None, type_name, offset, size, pointee_align: 16, kind }
    }

    fn kernel(arguments: Vec<ArgumentInfo>) -> KernelInfo {
        KernelInfo {
            name: "k".into(),
            symbol: "k.kd".into(),
            descriptor: 0,
            kernarg_size: 128,
            kernarg_align: 8,
            group_size: 20,
            private_size: 0,
            max_workgroup: 256,
            required_workgroup: None,
            wavefront: 32,
            dynamic_stack: false,
            vgprs: 8,
            sgprs: 16,
            arguments,
        }
    }

    const GEOMETRY: Geometry = Geometry { grid: [1000, 8, 1], block: [256, 4, 1] };
    const VALUES: HiddenValues = HiddenValues {
        queue: 0x1234_5678_9abc,
        private_base_hi: 0x20000,
        shared_base_hi: 0x10000,
        shared: 64,
    };

    fn buffer(address: u64) -> KernelArg {
        KernelArg::Buffer { address, memory: std::sync::Arc::new(()) }
    }

    #[test]
    fn explicit_arguments_land_at_their_offsets() {
        let kernel = kernel(vec![
            info(0, 8, ArgumentKind::Buffer, Some("float*")),
            info(8, 4, ArgumentKind::Value, Some("float")),
            info(12, 4, ArgumentKind::Local, None),
            info(16, 4, ArgumentKind::Local, None),
        ]);
        let args = [buffer(0xabcd), 1.5f32.into(), KernelArg::Local(100), KernelArg::Local(8)];
        let segment = lay_out(&kernel, &args, &GEOMETRY, &VALUES).unwrap();
        assert_eq!(segment.bytes[..8], 0xabcdu64.to_le_bytes());
        assert_eq!(segment.bytes[8..12], 1.5f32.to_le_bytes());
        assert_eq!(segment.bytes[12..16], 32u32.to_le_bytes(), "20 declared bytes, aligned to 16");
        assert_eq!(segment.bytes[16..20], 144u32.to_le_bytes(), "32 + 100, aligned to 16");
        assert_eq!(segment.group_size, 144 + 8 + 64);
    }

    #[test]
    fn hidden_arguments_follow_code_object_v5() {
        let hidden = |offset, size, hidden| info(offset, size, ArgumentKind::Hidden(hidden), None);
        let kernel = kernel(vec![
            hidden(0, 4, Hidden::BlockCount(0)),
            hidden(4, 4, Hidden::BlockCount(1)),
            hidden(8, 2, Hidden::GroupSize(0)),
            hidden(10, 2, Hidden::Remainder(0)),
            hidden(12, 2, Hidden::Remainder(1)),
            hidden(14, 2, Hidden::GridDims),
            hidden(16, 8, Hidden::GlobalOffset(2)),
            hidden(24, 8, Hidden::QueuePtr),
            hidden(32, 4, Hidden::PrivateBase),
            hidden(36, 4, Hidden::SharedBase),
            hidden(40, 4, Hidden::DynamicLdsSize),
            hidden(44, 8, Hidden::Zero),
        ]);
        let bytes = lay_out(&kernel, &[], &GEOMETRY, &VALUES).unwrap().bytes;
        let at = |offset: usize, size: usize| {
            bytes[offset..offset + size].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        assert_eq!([at(0, 4), at(4, 4)], [3, 2]);
        assert_eq!([at(8, 2), at(10, 2), at(12, 2), at(14, 2)], [256, 232, 0, 2]);
        assert_eq!([at(16, 8), at(24, 8)], [0, 0x1234_5678_9abc]);
        assert_eq!([at(32, 4), at(36, 4), at(40, 4), at(44, 8)], [0x20000, 0x10000, 64, 0]);
    }

    #[test]
    fn misfits_name_the_argument() {
        let kernel = kernel(vec![
            info(0, 8, ArgumentKind::Buffer, Some("float*")),
            info(8, 4, ArgumentKind::Value, Some("uint")),
        ]);
        let cases: Vec<(Vec<KernelArg>, &str)> = vec![
            (vec![buffer(1)], "takes 2 arguments, 1 were given"),
            (vec![1u64.into(), 1u32.into()], "argument 0 of kernel `k` (float*) is a buffer, an integer"),
            (vec![buffer(1), 1.0f32.into()], "argument 1 of kernel `k` (uint) is an integer, a floating"),
            (vec![buffer(1), 1u64.into()], "argument 1 of kernel `k` (uint) has 4 bytes, 8 were given"),
            (vec![buffer(1), buffer(2)], "is an integer, a buffer was given"),
            (vec![buffer(1), KernelArg::Bytes(vec![0; 3])], "has 4 bytes, 3 were given"),
        ];
        for (args, message) in cases {
            let error = lay_out(&kernel, &args, &GEOMETRY, &VALUES).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn dimensions_count_what_is_used() {
        for (grid, block, dimensions) in [
            ([64, 1, 1], [64, 1, 1], 1),
            ([64, 2, 1], [64, 1, 1], 2),
            ([64, 1, 2], [64, 1, 1], 3),
            ([64, 1, 1], [8, 8, 1], 2),
        ] {
            assert_eq!(Geometry { grid, block }.dimensions(), dimensions);
        }
    }
}
