//! The belfry binary: run, serve, image, doctor, disasm, bench.
