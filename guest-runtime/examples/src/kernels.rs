//! The compiled kernels, by processor. Sources: `guest-runtime/kernels`, rebuilt by `cargo xtask kernels`.

use anyhow::Context as _;
use belfry_runtime::Gpu;

/// A source and its code objects.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Its name, without `.cl`.
    pub name: &'static str,
    /// A code object for each processor it is compiled for.
    pub objects: &'static [(&'static str, &'static [u8])],
}

impl Source {
    /// The code object for a processor.
    ///
    /// # Errors
    ///
    /// The kernel is not compiled for that processor.
    pub fn object(&self, processor: &str) -> anyhow::Result<&'static [u8]> {
        let object = self.objects.iter().find(|(name, _)| *name == processor);
        object.map(|(_, bytes)| *bytes).with_context(|| {
            let there: Vec<_> = self.objects.iter().map(|(name, _)| *name).collect();
            format!("{}.cl is compiled for {}, not for {processor}", self.name, there.join(", "))
        })
    }

    /// The code object for a GPU.
    ///
    /// # Errors
    ///
    /// The kernel is not compiled for the GPU's processor.
    pub fn on(&self, gpu: &Gpu) -> anyhow::Result<&'static [u8]> {
        self.object(&gpu.agent().gfx_name())
    }
}

macro_rules! kernels {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = concat!("`", $file, ".cl`.")]
        pub const $name: Source = Source {
            name: $file,
            objects: &[
                ("gfx1100", include_bytes!(concat!("../../kernels/", $file, ".gfx1100.hsaco"))),
                ("gfx942", include_bytes!(concat!("../../kernels/", $file, ".gfx942.hsaco"))),
                ("gfx1201", include_bytes!(concat!("../../kernels/", $file, ".gfx1201.hsaco"))),
                ("gfx1151", include_bytes!(concat!("../../kernels/", $file, ".gfx1151.hsaco"))),
                ("gfx950", include_bytes!(concat!("../../kernels/", $file, ".gfx950.hsaco"))),
            ],
        };
    )*

        /// All of them.
        pub const ALL: &[Source] = &[$($name,)*];
    };
}

kernels! {
    BENCH = "bench";
    BITONIC = "bitonic";
    CONTEXT = "context";
    EMPTY = "empty";
    ENDLESS = "endless";
    GEMM = "gemm";
    GRIDSYNC = "gridsync";
    HIST = "hist";
    INTMIX = "intmix";
    MATRIX = "matrix";
    OCML = "ocml";
    PEERS = "peers";
    RACY = "racy";
    REDUCE = "reduce";
    SCRATCH = "scratch";
    SHAPES = "shapes";
    SIGNALS = "signals";
    SORT = "sort";
    TRANS = "trans";
    VECADD = "vecadd";
    WM = "wm";
    WORK = "work";
}

#[cfg(test)]
mod tests {
    use belfry_runtime::code_object::CodeObject;

    #[test]
    fn every_object_is_read_and_is_for_its_processor() {
        for source in super::ALL {
            let name = source.name;
            for (processor, bytes) in source.objects {
                let object = CodeObject::parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(object.target(), *processor, "{name}");
                assert!(!object.kernels().is_empty(), "{name}");
                assert_eq!(source.object(processor).unwrap(), *bytes, "{name}");
            }
        }
        let error = super::VECADD.object("gfx9000").unwrap_err().to_string();
        assert_eq!(
            error,
            "vecadd.cl is compiled for gfx1100, gfx942, gfx1201, gfx1151, gfx950, not for gfx9000"
        );
    }
}
