//! The identity of a module: a hash over everything it is made of.

use std::fs;

use sha2::{Digest as _, Sha256};

use super::{ModuleError, ModuleInputs, RECIPE, io_error};

/// Returns the hash, in hexadecimal, of the driver core, the shim and the kernel's configuration.
pub(super) fn identity(inputs: &ModuleInputs) -> Result<String, ModuleError> {
    let mut hash = Sha256::new();
    let mut add = |name: &str, content: &[u8]| {
        for text in [name.as_bytes(), content] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    };
    add("recipe", &RECIPE.to_le_bytes());
    add("release", inputs.release.as_bytes());
    add("core", inputs.core);
    for (name, content) in inputs.shim {
        add(name, content);
    }
    let headers = inputs.headers.join(format!("usr/src/linux-headers-{}", inputs.release));
    for name in [".config", "Module.symvers"] {
        let file = headers.join(name);
        add(name, &fs::read(&file).map_err(io_error("read", &file))?);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_of_another_core_shim_or_kernel_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let headers = directory.path().join("usr/src/linux-headers-6.12-x");
        fs::create_dir_all(&headers).unwrap();
        for name in [".config", "Module.symvers"] {
            fs::write(headers.join(name), name).unwrap();
        }
        let inputs = ModuleInputs {
            release: "6.12-x".into(),
            headers: directory.path().to_owned(),
            kbuild_libs: directory.path().to_owned(),
            core: b"core",
            shim: &[("main.c", b"main")],
            cache: directory.path().to_owned(),
        };
        let first = identity(&inputs).unwrap();
        assert_eq!(identity(&inputs).unwrap(), first);
        let mut all = vec![
            identity(&ModuleInputs { core: b"c0re", ..inputs.clone() }).unwrap(),
            identity(&ModuleInputs { shim: &[("main.c", b"ma1n")], ..inputs.clone() }).unwrap(),
            identity(&ModuleInputs { shim: &[("a.c", b"main")], ..inputs.clone() }).unwrap(),
        ];
        fs::write(headers.join("Module.symvers"), "other").unwrap();
        all.push(identity(&inputs).unwrap());
        all.push(first);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 5);
        fs::remove_file(headers.join(".config")).unwrap();
        assert!(identity(&inputs).unwrap_err().to_string().contains(".config"));
    }
}
