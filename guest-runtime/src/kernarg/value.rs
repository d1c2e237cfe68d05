//! The values a program passes to a kernel.

use std::any::Any;
use std::sync::Arc;

use half::f16;

use crate::memory::Buffer;

/// A number as a kernel argument.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types they are named after")]
pub enum Scalar {
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F16(f16),
    F32(f32),
    F64(f64),
}

impl Scalar {
    /// The bytes, little endian.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::I8(value) => value.to_le_bytes().to_vec(),
            Self::U8(value) => value.to_le_bytes().to_vec(),
            Self::I16(value) => value.to_le_bytes().to_vec(),
            Self::U16(value) => value.to_le_bytes().to_vec(),
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::I64(value) => value.to_le_bytes().to_vec(),
            Self::U64(value) => value.to_le_bytes().to_vec(),
            Self::F16(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::F64(value) => value.to_le_bytes().to_vec(),
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F16(_) | Self::F32(_) | Self::F64(_))
    }
}

/// One argument of a launch.
#[derive(Clone)]
#[non_exhaustive]
pub enum KernelArg {
    /// A number, for `by_value` parameters.
    Scalar(Scalar),
    /// Bytes of a structure, for `by_value` parameters.
    Bytes(Vec<u8>),
    /// A buffer's address, for `__global` pointers. The buffer lives until the launch is done.
    Buffer {
        /// Address.
        address: u64,
        /// Reference that keeps the memory.
        memory: Arc<dyn Any + Send + Sync>,
    },
    /// This many bytes of LDS, for `__local` pointers.
    Local(u32),
}

impl std::fmt::Debug for KernelArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Buffer { address, .. } => write!(f, "Buffer({address:#x})"),
            Self::Local(bytes) => write!(f, "Local({bytes})"),
        }
    }
}

macro_rules! scalars {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for KernelArg {
            fn from(value: $type) -> Self {
                Self::Scalar(Scalar::$variant(value))
            }
        }
    )*};
}

scalars! {
    i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64,
    f16 => F16, f32 => F32, f64 => F64
}

impl From<Scalar> for KernelArg {
    fn from(value: Scalar) -> Self {
        Self::Scalar(value)
    }
}

impl<T> From<&Buffer<T>> for KernelArg {
    fn from(buffer: &Buffer<T>) -> Self {
        Self::Buffer { address: buffer.address(), memory: Arc::clone(buffer.allocation()) as _ }
    }
}

/// Several arguments at once: a tuple of up to twelve, or a vector.
pub trait Arguments {
    /// The arguments in order.
    fn into_args(self) -> Vec<KernelArg>;
}

impl Arguments for Vec<KernelArg> {
    fn into_args(self) -> Vec<KernelArg> {
        self
    }
}

impl Arguments for () {
    fn into_args(self) -> Vec<KernelArg> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Into<KernelArg>),+> Arguments for ($($name,)+) {
            fn into_args(self) -> Vec<KernelArg> {
                #[expect(non_snake_case, reason = "the variables are named after their types")]
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
