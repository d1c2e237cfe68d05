//! Kernel arguments: typed values, checked against the metadata and laid out with the hidden ones.

mod layout;
mod pool;
mod value;

pub(crate) use layout::{Geometry, HiddenValues, lay_out};
pub(crate) use pool::KernargPool;
pub use value::{Arguments, KernelArg, Scalar};

/// Why arguments do not fit a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// Too few or too many.
    #[error("kernel `{kernel}` takes {expected} arguments, {given} were given")]
    Count {
        /// The kernel.
        kernel: String,
        /// Number of arguments in the metadata.
        expected: usize,
        /// Number of arguments that were passed.
        given: usize,
    },
    /// A value of the wrong size.
    #[error("argument {index} of kernel `{kernel}` ({what}) has {expected} bytes, {given} were given")]
    Size {
        /// The kernel.
        kernel: String,
        /// Number of the argument, from 0.
        index: usize,
        /// Its declaration, as far as the metadata has it.
        what: String,
        /// Bytes of the argument in the metadata.
        expected: u32,
        /// Bytes that were passed.
        given: usize,
    },
    /// A value where a buffer belongs, an integer where a float belongs, and so on.
    #[error("argument {index} of kernel `{kernel}` ({what}) is {expected}, {given} was given")]
    Kind {
        /// The kernel.
        kernel: String,
        /// Number of the argument, from 0.
        index: usize,
        /// Its declaration, as far as the metadata has it.
        what: String,
        /// Kind of argument that the kernel expects.
        expected: String,
        /// Kind of argument that was passed.
        given: &'static str,
    },
}
