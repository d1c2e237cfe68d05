//! Parts that the binary carries, so that it works without its source tree: `build.rs` builds them.

#[cfg(test)]
mod toolchain;

use std::sync::LazyLock;

use belfry_image::{Driver, Part, Parts};
use miniz_oxide::inflate::decompress_to_vec_zlib;
use object::Object as _;
use object::read::elf::ElfFile64;

macro_rules! built {
    ($name:literal) => {
        unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
    (maybe $name:literal) => {
        Part::built(built!($name), include_str!(concat!(env!("OUT_DIR"), "/", $name, ".lacks")))
    };
}

/// Parts of guests that are no packages, unpacked when they are first asked for.
pub static PARTS: LazyLock<Parts> = LazyLock::new(|| Parts {
    driver: Driver { core: built!(maybe "core.rs.o"), shim: include!(concat!(env!("OUT_DIR"), "/shim.rs")) },
    init: built!("init"),
    examples: built!("examples"),
    bare_metal: built!(maybe "bare-metal"),
});

/// The library that programs of `belfry exec` are started with.
pub static PRELOAD: &[u8] = include_bytes!(env!("BELFRY_PRELOAD"));

/// The program that runs kernels on the processor through OpenCL.
pub static OPENCL: LazyLock<&[u8]> = LazyLock::new(|| built!("belfry-opencl"));

/// Unpacks a part as `build.rs` packs it; an empty one is absent.
fn unpacked(packed: &[u8]) -> &'static [u8] {
    if packed.is_empty() {
        return &[];
    }
    #[expect(clippy::expect_used, reason = "the build has packed it, and a test unpacks each")]
    let content = decompress_to_vec_zlib(packed).expect("a part of the binary");
    content.leak()
}

/// Tells [`PRELOAD`] from that of other versions, in hexadecimal: a part of the build ID of the linker. `None` if there is no library,
/// which is so in a check (`cargo check`) alone.
#[must_use]
pub fn preload_identity() -> Option<&'static str> {
    static IDENTITY: LazyLock<Option<String>> = LazyLock::new(|| {
        let file: ElfFile64<'_> = ElfFile64::parse(PRELOAD).ok()?;
        let id = file.build_id().ok().flatten()?;
        Some(id.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    });
    IDENTITY.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    use object::ObjectSymbol as _;
    use object::elf::{ET_EXEC, PT_INTERP};
    use object::read::elf::{FileHeader as _, ProgramHeader as _};

    fn workspace() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
    }

    fn parts() -> [(&'static str, &'static [u8]); 6] {
        [
            ("init", PARTS.init),
            ("examples", PARTS.examples),
            ("bare-metal", PARTS.bare_metal.content("the bare-metal guest").unwrap()),
            ("core.rs.o", PARTS.driver.core.content("the guest's driver").unwrap()),
            ("preload", PRELOAD),
            ("opencl", *OPENCL),
        ]
    }

    #[test]
    fn shim_is_that_of_the_tree() {
        let mut tree = BTreeMap::new();
        for entry in fs::read_dir(workspace().join("guest-driver/linux")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_file() && !["README.md", "Cargo.toml", "Cargo.lock"].contains(&name.as_str()) {
                tree.insert(name, fs::read(&path).unwrap());
            }
        }
        let shim = PARTS.driver.shim.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec()));
        assert!(shim.collect::<BTreeMap<_, _>>() == tree, "the files differ");
    }

    #[test]
    fn programs_of_guests_need_no_library() {
        for (name, content) in &parts()[..3] {
            let file: ElfFile64<'_> = ElfFile64::parse(*content).unwrap();
            let headers = file.elf_header().program_headers(file.endian(), *content).unwrap();
            assert!(!headers.is_empty(), "{name}");
            assert!(headers.iter().all(|header| header.p_type(file.endian()) != PT_INTERP), "{name}");
        }
    }

    #[test]
    fn bare_metal_guest_has_fixed_addresses() {
        let content = parts()[2].1;
        let file: ElfFile64<'_> = ElfFile64::parse(content).unwrap();
        assert_eq!(file.elf_header().e_type(file.endian()), ET_EXEC);
    }

    #[test]
    fn library_of_exec_has_an_identity() {
        let identity = preload_identity().unwrap();
        assert_eq!(identity.len(), 16);
        assert!(identity.bytes().all(|byte| byte.is_ascii_hexdigit()), "{identity}");
    }

    #[test]
    fn driver_core_has_what_the_shim_calls() {
        let core: ElfFile64<'_> = ElfFile64::parse(parts()[3].1).unwrap();
        let names: Vec<&str> = core
            .symbols()
            .filter(|symbol| symbol.is_definition() && symbol.is_global())
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        assert!(names.iter().any(|name| name.starts_with("belfry_")), "{names:?}");
        assert!(core.section_by_name(".debug_info").is_none(), "not stripped");
    }

    #[test]
    fn parts_name_no_place_of_the_build() {
        let place = workspace().to_str().unwrap().to_owned();
        for (name, content) in parts() {
            let found = content.windows(place.len()).any(|bytes| bytes == place.as_bytes());
            assert!(!found, "{name} names {place}");
        }
    }

    /// With one that is not, cargo builds everything anew each time.
    #[test]
    fn everything_that_is_watched_is_there() {
        for path in include_str!(concat!(env!("OUT_DIR"), "/sources.txt")).lines() {
            assert!(Path::new(path).exists(), "{path}");
        }
    }

    /// Cargo asks for the build only when one of these changes.
    #[test]
    fn every_part_is_built_again_after_its_sources() {
        let sources: BTreeSet<PathBuf> = include_str!(concat!(env!("OUT_DIR"), "/sources.txt"))
            .lines()
            .filter_map(|line| fs::canonicalize(line).ok())
            .collect();
        for source in [
            "Cargo.lock",
            "abi/src/lib.rs",
            "guest-driver/core/src/lib.rs",
            "guest-driver/core/Cargo.toml",
            "guest-driver/linux",
            "guest-driver/linux/src/os.rs",
            "guest-runtime/examples/src/main.rs",
            "guest-runtime/kernels/vecadd.gfx1100.hsaco",
            "guest-runtime/src/lib.rs",
            "guests/bare-metal/.cargo/config.toml",
            "guests/bare-metal/Cargo.lock",
            "guests/bare-metal/link.ld",
            "guests/bare-metal/src/main.rs",
            "host-vmm/opencl/src/main.rs",
            "images/channel/src/lib.rs",
            "images/init/src/main.rs",
        ] {
            let path = fs::canonicalize(workspace().join(source)).expect(source);
            assert!(sources.contains(&path), "{source} is not watched");
        }
    }
}
