//! Parameters of kernel modules on the kernel's command line.

/// Returns the parameters that a command line has for the module in a file, in their order, as modprobe finds them: `NAME.PARAMETER=VALUE`.
///
/// Values with spaces are not known here. Names of modules have `-` and `_` alike.
#[must_use]
pub fn parameters(command_line: &str, file: &str) -> String {
    let name = file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    let alike = |name: &str| name.replace('-', "_");
    let of_module = |word: &str| {
        let (module, parameter) = word.split_once('.')?;
        (!name.is_empty() && alike(module) == alike(name)).then(|| parameter.to_owned())
    };
    command_line.split_whitespace().filter_map(of_module).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_module() {
        let line =
            "quiet amdgpu.pcie_p2p=0 root=/dev/vda other.pcie_p2p=1 virtio-pci.x=a.b amdgpu.emu_mode=1\n";
        let of = |file| parameters(line, file);
        assert_eq!(of("/lib/modules/amdgpu.ko"), "pcie_p2p=0 emu_mode=1");
        assert_eq!(of("virtio_pci.ko"), "x=a.b");
        assert_eq!((of("amd.ko"), of("/"), of("")), (String::new(), String::new(), String::new()));
    }
}
