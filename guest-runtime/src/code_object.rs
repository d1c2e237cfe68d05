//! Code objects: clang's output for a kernel source, ready to be placed in GPU memory.
//!
//! A code object is an AMDGPU ELF shared object: segments to load, kernel descriptors at `NAME.kd` symbols, and a
//! MessagePack note with the layout of each kernel's arguments. The bytes may come from anywhere, so every offset and
//! count is checked before use.

mod bundle;
mod elf;
mod metadata;
mod processors;

pub use bundle::unbundle;
pub use metadata::{ArgumentInfo, ArgumentKind, Hidden, KernelInfo};
pub use processors::runs_on;

use elf::Relocation;

/// Largest loaded size accepted. A file names its size in a few bytes, so there has to be a limit.
const MAX_IMAGE: u64 = 256 << 20;

/// Why a code object was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeObjectError {
    /// The file is not an ELF file, or a broken one.
    #[error("not a readable ELF file: {0}")]
    Elf(String),
    /// The file is an ELF file for something else.
    #[error("the file is not an AMD GPU code object: {0}")]
    NotAmdGpu(String),
    /// The code object is for another GPU.
    #[error("the code object is for {file}, this GPU is {gpu}: compile with -mcpu={gpu}")]
    Target {
        /// Target of the file.
        file: String,
        /// Target of the agent.
        gpu: String,
    },
    /// The file is an offload bundle that cannot be read.
    #[error("cannot read the offload bundle: {0}")]
    Bundle(String),
    /// An offload bundle has no code for a GPU.
    #[error("the file has no code for {gpu}, it has code for {}: compile with --offload-arch={gpu}", names(.targets))]
    NotInBundle {
        /// Processor that was asked for.
        gpu: String,
        /// Targets there are.
        targets: Vec<String>,
    },
    /// The code object version is not one this loader knows.
    #[error("unsupported code object version (ELF ABI version {0}): compile with -mcode-object-version=5")]
    Version(u8),
    /// A segment, symbol or relocation lies outside the file or the loaded image.
    #[error("{what} at {address:#x} (+{size:#x}) lies outside the code object")]
    OutOfRange {
        /// Item that was read.
        what: &'static str,
        /// Its address or file offset.
        address: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// The image would be larger than this loader accepts.
    #[error("the code object wants {0:#x} bytes of memory, more than this loader accepts ({MAX_IMAGE:#x})")]
    TooLarge(u64),
    /// A relocation of a type this loader does not know.
    #[error("unsupported relocation type {kind} at {address:#x}")]
    Relocation {
        /// `R_AMDGPU_*`.
        kind: u32,
        /// Address at which it applies.
        address: u64,
    },
    /// A symbol the code object does not define.
    #[error("the code object needs the symbol `{0}`, which it does not define")]
    Undefined(String),
    /// The metadata note is missing or not understood.
    #[error("bad metadata: {0}")]
    Metadata(String),
    /// The named kernel is not in the code object.
    #[error("no kernel `{name}` in the code object; it has {}", names(.available))]
    NoSuchKernel {
        /// The name asked for.
        name: String,
        /// The kernels there are.
        available: Vec<String>,
    },
}

fn names(available: &[String]) -> String {
    if available.is_empty() { "none".to_owned() } else { available.join(", ") }
}

/// A parsed code object: an image to place at some address, and its kernels.
#[derive(Debug, Clone)]
pub struct CodeObject {
    target: String,
    image: Vec<u8>,
    relocations: Vec<Relocation>,
    kernels: Vec<KernelInfo>,
}

impl CodeObject {
    /// Parses an AMDGPU ELF file.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError`]; no input makes this panic or allocate more than the file justifies
    /// (256 MiB for the image, a fixed multiple of the file size for the rest).
    pub fn parse(bytes: &[u8]) -> Result<Self, CodeObjectError> {
        let file = elf::parse(bytes)?;
        let mut kernels = metadata::parse(&file.metadata)?;
        for kernel in &mut kernels {
            let descriptor = file
                .symbols
                .get(&kernel.symbol)
                .copied()
                .ok_or_else(|| CodeObjectError::Undefined(kernel.symbol.clone()))?;
            kernel.descriptor = descriptor;
            elf::check_descriptor(&file.image, kernel)?;
        }
        Ok(Self { target: file.target, image: file.image, relocations: file.relocations, kernels })
    }

    /// The first of several code objects that has a kernel, as [`CodeObject::kernel`] finds it.
    ///
    /// # Errors
    ///
    /// As for [`CodeObject::parse`]; [`CodeObjectError::NoSuchKernel`] lists the kernels of all of them.
    pub fn with_kernel(objects: &[impl AsRef<[u8]>], name: &str) -> Result<Self, CodeObjectError> {
        let mut all = Vec::new();
        for bytes in objects {
            let object = Self::parse(bytes.as_ref())?;
            match object.kernel(name) {
                Ok(_) => return Ok(object),
                Err(CodeObjectError::NoSuchKernel { available, .. }) => all.extend(available),
                Err(error) => return Err(error),
            }
        }
        Err(CodeObjectError::NoSuchKernel { name: name.to_owned(), available: all })
    }

    /// The processor the code is for, for example `gfx1100`, or the kind of processors, for example `gfx11-generic`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The kernels, in the order of the metadata.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    /// One kernel by name: the name of its symbol, or of a C++ function that only one kernel has.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError::NoSuchKernel`], which lists the kernels there are.
    pub fn kernel(&self, name: &str) -> Result<&KernelInfo, CodeObjectError> {
        // Itanium C++ ABI, 5.1.3: a function outside of any namespace begins with its name's length and its name.
        let mangled = format!("_Z{}{name}", name.len());
        let mut functions = self.kernels.iter().filter(|kernel| kernel.name.starts_with(&mangled));
        let only = functions.next().filter(|_| functions.next().is_none());
        let exact = self.kernels.iter().find(|kernel| kernel.name == name);
        exact.or(only).ok_or_else(|| CodeObjectError::NoSuchKernel {
            name: name.to_owned(),
            available: self.kernels.iter().map(|kernel| kernel.name.clone()).collect(),
        })
    }

    /// Bytes of memory the loaded image takes.
    pub fn image_size(&self) -> usize {
        self.image.len()
    }

    /// Checks that the code is for the given GPU, or for processors of its kind.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError::Target`].
    pub fn check_target(&self, gpu: &str) -> Result<(), CodeObjectError> {
        if runs_on(&self.target, gpu) {
            return Ok(());
        }
        Err(CodeObjectError::Target { file: self.target.clone(), gpu: gpu.to_owned() })
    }

    /// The image as it has to look in memory at `base`: segments in place, dynamic relocations applied.
    ///
    /// # Errors
    ///
    /// [`CodeObjectError::OutOfRange`] when a relocation points outside the image.
    pub fn relocated(&self, base: u64) -> Result<Vec<u8>, CodeObjectError> {
        let mut image = self.image.clone();
        for relocation in &self.relocations {
            relocation.apply(&mut image, base)?;
        }
        Ok(image)
    }
}

#[cfg(test)]
mod tests;
