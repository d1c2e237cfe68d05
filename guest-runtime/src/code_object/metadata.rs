//! The metadata note: how each kernel wants to be launched.
//!
//! Layout: LLVM "User Guide for AMDGPU Backend", Code Object V5 Metadata.

use rmpv::Value;

use super::CodeObjectError;

/// Largest kernel argument segment accepted, in bytes.
const MAX_KERNARG: u32 = 64 << 10;
/// Deepest nesting accepted; clang's is four.
const MAX_DEPTH: usize = 32;

/// Metadata of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name in the source.
    pub name: String,
    /// Symbol of the kernel descriptor, `NAME.kd`.
    pub symbol: String,
    /// Address of the kernel descriptor, relative to the load address.
    pub descriptor: u64,
    /// Bytes of the kernel argument segment.
    pub kernarg_size: u32,
    /// Alignment of the kernel argument segment in bytes.
    pub kernarg_align: u32,
    /// Bytes of LDS the kernel declares.
    pub group_size: u32,
    /// Bytes of scratch memory per work-item.
    pub private_size: u32,
    /// Most work-items a workgroup may have.
    pub max_workgroup: u32,
    /// The workgroup the source requires (`reqd_work_group_size`), if it does.
    pub required_workgroup: Option<[u32; 3]>,
    /// Lanes of a wave, 32 or 64.
    pub wavefront: u32,
    /// The stack's size is not known to the compiler (recursion, indirect calls).
    pub dynamic_stack: bool,
    /// Vector registers of a wave.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Arguments in order, hidden ones included.
    pub arguments: Vec<ArgumentInfo>,
}

impl KernelInfo {
    /// The arguments a program passes: all but the hidden ones.
    pub fn explicit_arguments(&self) -> impl Iterator<Item = &ArgumentInfo> {
        self.arguments.iter().filter(|argument| !matches!(argument.kind, ArgumentKind::Hidden(_)))
    }
}

/// Metadata of one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentInfo {
    /// Name in the source, when the compiler recorded it.
    pub name: Option<String>,
    /// Type in the source, when the compiler recorded it (`float*`, `uint`).
    pub type_name: Option<String>,
    /// Offset in the kernel argument segment, in bytes.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment of the memory that a `__local` pointer points to, in bytes.
    pub pointee_align: u32,
    /// Kind of the argument.
    pub kind: ArgumentKind,
}

/// Kind of an argument, `.value_kind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentKind {
    /// `by_value`: the bytes themselves.
    Value,
    /// `global_buffer`: an address of global memory.
    Buffer,
    /// `dynamic_shared_pointer`: an offset into LDS.
    Local,
    /// An argument the runtime fills.
    Hidden(Hidden),
    /// A kind this runtime does not pass (images, samplers, pipes).
    Unsupported(String),
}

/// Arguments the runtime fills, `hidden_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// Whole workgroups in one dimension.
    BlockCount(usize),
    /// Work-items of a whole workgroup in one dimension.
    GroupSize(usize),
    /// Work-items of the partial workgroup at the end of one dimension.
    Remainder(usize),
    /// Offset added to global ids in one dimension.
    GlobalOffset(usize),
    /// Number of grid dimensions.
    GridDims,
    /// Bits 63:32 of the private aperture.
    PrivateBase,
    /// Bits 63:32 of the shared aperture.
    SharedBase,
    /// Address of the `amd_queue_t`.
    QueuePtr,
    /// Bytes of LDS added at launch.
    DynamicLdsSize,
    /// Something that is zero here: no printf buffer, host calls, heap, default queue or multigrid.
    Zero,
}

impl Hidden {
    /// The kind for a `.value_kind` string without its `hidden_` prefix; `None` if it is not known.
    fn parse(name: &str) -> Option<Self> {
        if let Some((stem, axis)) = name.rsplit_once('_')
            && let Some(axis) = ["x", "y", "z"].iter().position(|name| *name == axis)
        {
            return match stem {
                "block_count" => Some(Self::BlockCount(axis)),
                "group_size" => Some(Self::GroupSize(axis)),
                "remainder" => Some(Self::Remainder(axis)),
                "global_offset" => Some(Self::GlobalOffset(axis)),
                _ => None,
            };
        }
        Some(match name {
            "grid_dims" => Self::GridDims,
            "private_base" => Self::PrivateBase,
            "shared_base" => Self::SharedBase,
            "queue_ptr" => Self::QueuePtr,
            "dynamic_lds_size" => Self::DynamicLdsSize,
            "none" | "printf_buffer" | "hostcall_buffer" | "heap_v1" | "default_queue"
            | "completion_action" | "multigrid_sync_arg" => Self::Zero,
            _ => return None,
        })
    }
}

/// Parses the MessagePack map of the note.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<KernelInfo>, CodeObjectError> {
    let mut reader = bytes;
    let root = rmpv::decode::read_value_with_max_depth(&mut reader, MAX_DEPTH)
        .map_err(|error| bad(format!("the note is not MessagePack: {error}")))?;
    let Some(kernels) = field(&root, "amdhsa.kernels") else { return Ok(Vec::new()) };
    let kernels = kernels.as_array().ok_or_else(|| bad("`amdhsa.kernels` is not a list"))?;
    kernels.iter().map(kernel).collect()
}

fn bad(text: impl Into<String>) -> CodeObjectError {
    CodeObjectError::Metadata(text.into())
}

fn field<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
}

fn text(map: &Value, key: &str) -> Option<String> {
    field(map, key)?.as_str().map(ToOwned::to_owned)
}

fn number(map: &Value, key: &str) -> Result<Option<u32>, CodeObjectError> {
    let Some(value) = field(map, key) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.map(Some).ok_or_else(|| bad(format!("`{key}` is not a 32-bit number: {value}")))
}

fn kernel(map: &Value) -> Result<KernelInfo, CodeObjectError> {
    let name = text(map, ".name").ok_or_else(|| bad("a kernel has no `.name`"))?;
    let required =
        |key: &str| number(map, key)?.ok_or_else(|| bad(format!("kernel `{name}` has no `{key}`")));
    let kernarg_size = required(".kernarg_segment_size")?;
    if kernarg_size > MAX_KERNARG {
        return Err(bad(format!("kernel `{name}` wants {kernarg_size} bytes of arguments")));
    }
    let kernarg_align = required(".kernarg_segment_align")?;
    if !kernarg_align.is_power_of_two() || kernarg_align > 4096 {
        return Err(bad(format!("kernel `{name}` aligns its arguments to {kernarg_align}")));
    }
    let wavefront = required(".wavefront_size")?;
    if !matches!(wavefront, 32 | 64) {
        return Err(bad(format!("kernel `{name}` has waves of {wavefront} lanes")));
    }
    let mut arguments = Vec::new();
    if let Some(list) = field(map, ".args") {
        let list = list.as_array().ok_or_else(|| bad(format!("`.args` of `{name}` is not a list")))?;
        for entry in list {
            arguments.push(argument(&name, kernarg_size, entry)?);
        }
    }
    Ok(KernelInfo {
        symbol: text(map, ".symbol").unwrap_or_else(|| format!("{name}.kd")),
        descriptor: 0,
        kernarg_size,
        kernarg_align,
        group_size: required(".group_segment_fixed_size")?,
        private_size: required(".private_segment_fixed_size")?,
        max_workgroup: number(map, ".max_flat_workgroup_size")?.unwrap_or(1024),
        required_workgroup: required_workgroup(map)?,
        wavefront,
        dynamic_stack: field(map, ".uses_dynamic_stack").and_then(Value::as_bool).unwrap_or(false),
        vgprs: number(map, ".vgpr_count")?.unwrap_or(0),
        sgprs: number(map, ".sgpr_count")?.unwrap_or(0),
        arguments,
        name,
    })
}

fn required_workgroup(map: &Value) -> Result<Option<[u32; 3]>, CodeObjectError> {
    let Some(list) = field(map, ".reqd_workgroup_size") else { return Ok(None) };
    let numbers: Option<Vec<u32>> = list
        .as_array()
        .map(|list| list.iter().filter_map(|number| u32::try_from(number.as_u64()?).ok()).collect());
    let three: Option<[u32; 3]> = numbers.and_then(|numbers| numbers.try_into().ok());
    three.map(Some).ok_or_else(|| bad("`.reqd_workgroup_size` is not three numbers"))
}

fn argument(kernel: &str, kernarg_size: u32, map: &Value) -> Result<ArgumentInfo, CodeObjectError> {
    let required =
        |key: &str| number(map, key)?.ok_or_else(|| bad(format!("an argument of `{kernel}` has no `{key}`")));
    let (offset, size) = (required(".offset")?, required(".size")?);
    if offset.checked_add(size).is_none_or(|end| end > kernarg_size) {
        return Err(bad(format!(
            "an argument of `{kernel}` at {offset} (+{size}) lies outside its {kernarg_size} bytes"
        )));
    }
    let kind =
        text(map, ".value_kind").ok_or_else(|| bad(format!("an argument of `{kernel}` has no kind")))?;
    let kind = match kind.as_str() {
        "by_value" => ArgumentKind::Value,
        "global_buffer" => ArgumentKind::Buffer,
        "dynamic_shared_pointer" => ArgumentKind::Local,
        other => match other.strip_prefix("hidden_") {
            Some(hidden) => match Hidden::parse(hidden) {
                Some(hidden) => ArgumentKind::Hidden(hidden),
                None => {
                    return Err(bad(format!("`{kernel}` wants `{other}`, which this runtime does not know")));
                }
            },
            None => ArgumentKind::Unsupported(other.to_owned()),
        },
    };
    Ok(ArgumentInfo {
        name: text(map, ".name"),
        type_name: text(map, ".type_name"),
        offset,
        size,
        pointee_align: number(map, ".pointee_align")?.unwrap_or(1).max(1),
        kind,
    })
}
