//! The compiled kernels, for gfx1100. Sources: `guest-runtime/kernels`, rebuilt by `cargo xtask kernels`.

macro_rules! kernels {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = concat!("`", $file, ".cl`.")]
        pub const $name: &[u8] =
            include_bytes!(concat!("../../kernels/", $file, ".gfx1100.hsaco"));
    )*

        /// Every code object by the name of its source.
        pub const ALL: &[(&str, &[u8])] = &[$(($file, $name),)*];
    };
}

kernels! {
    BENCH = "bench";
    BITONIC = "bitonic";
    ENDLESS = "endless";
    GEMM = "gemm";
    GRIDSYNC = "gridsync";
    HIST = "hist";
    INTMIX = "intmix";
    MATRIX = "matrix";
    OCML = "ocml";
    REDUCE = "reduce";
    SCRATCH = "scratch";
    SHAPES = "shapes";
    SIGNALS = "signals";
    SORT = "sort";
    TRANS = "trans";
    VECADD = "vecadd";
    WM = "wm";
}

#[cfg(test)]
mod tests {
    use belfry_runtime::code_object::CodeObject;

    #[test]
    fn every_object_is_read_and_is_for_gfx1100() {
        for (name, bytes) in super::ALL {
            let object = CodeObject::parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(object.target(), "gfx1100", "{name}");
            assert!(!object.kernels().is_empty(), "{name}");
        }
    }
}
