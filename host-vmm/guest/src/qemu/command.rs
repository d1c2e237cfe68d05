//! QEMU's command line.

use std::path::{Path, PathBuf};

use belfry_channel::PORT;
use belfry_vfio_user::qemu_devices;

use crate::config::Accelerator;
use crate::share::{Share, tag};

/// Choices that make the command line.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) accelerator: Accelerator,
    pub(super) cpus: u32,
    pub(super) memory: u64,
    pub(super) boot: Boot<'a>,
    /// File for the guest's output on its serial port.
    pub(super) console: &'a Path,
    /// The socket of a terminal at that port.
    pub(super) terminal: Option<&'a Path>,
    /// The sockets of the GPUs' servers.
    pub(super) gpus: &'a [PathBuf],
}

/// System that the machine boots.
#[derive(Debug)]
pub(super) enum Boot<'a> {
    /// A kernel whose init talks to the socket `channel`, under a QEMU that is asked at the socket `monitor`.
    Kernel {
        kernel: &'a Path,
        initramfs: &'a Path,
        command_line: &'a str,
        channel: &'a Path,
        monitor: &'a Path,
    },
    /// The system that the firmware finds on the first disk; its kernel gets no arguments from here.
    Disk,
}

/// Writes a path as a part of a comma-separated option, in which QEMU needs commas doubled.
pub(super) fn option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// All features of QEMU's translator, x86-64-v3 among them, under the family and model of a real processor (Zen 3): a
/// compiler that is asked for the code of this machine does not know QEMU's own model.
const TCG_CPU: &str = "max,family=25,model=1,stepping=1";

/// Kernel arguments under the translator, before all others.
///
/// Stock kernels use `cmpxchg16b` in their allocator, and QEMU's translation of it is not reliable there: some
/// versions lose its flags if an interrupt arrives right after it. Programs can still use it, because x86-64-v2 has
/// it. Translated code does not speculate, so that there is nothing to mitigate.
const TCG_KERNEL: &str = "clearcpuid=cx16 mitigations=off";

/// Returns everything after the program's own arguments.
pub(super) fn arguments(machine: &Machine<'_>) -> Vec<String> {
    let size = machine.memory >> 20;
    let (accelerator, cpu, told) = match (machine.accelerator, &machine.boot) {
        (Accelerator::Kvm, _) => ("kvm", "host".to_owned(), None),
        (Accelerator::Tcg, Boot::Kernel { .. }) => ("tcg,thread=multi", TCG_CPU.to_owned(), Some(TCG_KERNEL)),
        (Accelerator::Tcg, Boot::Disk) => ("tcg,thread=multi", format!("{TCG_CPU},-cx16"), None),
    };
    let chipset = match machine.boot {
        Boot::Kernel { .. } => "q35,memory-backend=ram",
        // Without graphics, the firmware also writes to the serial port.
        Boot::Disk => "q35,memory-backend=ram,graphics=off",
    };
    let console = match machine.terminal {
        None => format!("file,id=console,path={}", option(machine.console)),
        Some(socket) => {
            format!("socket,id=console,path={},logfile={}", option(socket), option(machine.console))
        }
    };
    let mut arguments: Vec<String> = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-accel",
        accelerator,
        "-cpu",
        &cpu,
        "-machine",
        chipset,
        "-smp",
        &machine.cpus.to_string(),
        "-m",
        &format!("{size}M"),
        "-object",
        &format!("memory-backend-memfd,id=ram,size={size}M,share=on"),
        "-chardev",
        &console,
        "-serial",
        "chardev:console",
    ]
    .map(str::to_owned)
    .to_vec();
    if let Boot::Kernel { kernel, initramfs, command_line, channel, monitor } = &machine.boot {
        let command_line: Vec<&str> = told.into_iter().chain([*command_line]).collect();
        arguments.extend(
            [
                "-kernel",
                &kernel.display().to_string(),
                "-initrd",
                &initramfs.display().to_string(),
                "-append",
                &command_line.join(" "),
                "-device",
                "virtio-serial-pci",
                "-chardev",
                &format!("socket,id=channel,path={}", option(channel)),
                "-device",
                &format!("virtserialport,chardev=channel,name={PORT}"),
                "-chardev",
                &format!("socket,id=monitor,server=on,wait=off,path={}", option(monitor)),
                "-mon",
                "chardev=monitor,mode=control",
            ]
            .map(str::to_owned),
        );
    }
    for device in qemu_devices(machine.gpus) {
        arguments.extend(["-device".to_owned(), device]);
    }
    arguments
}

/// Returns the options of a network card that is connected to the host's network with the rights of QEMU's user; the
/// card cannot be booted from. Connections to port `ssh` of this machine, only from this machine, reach the guest's
/// port 22.
pub(super) fn user_network(ssh: Option<u16>) -> [String; 4] {
    let forward = ssh.map(|port| format!(",hostfwd=tcp:127.0.0.1:{port}-:22")).unwrap_or_default();
    [
        "-netdev".to_owned(),
        format!("user,id=network{forward}"),
        "-device".to_owned(),
        "virtio-net-pci,netdev=network,romfile=".to_owned(),
    ]
}

/// Returns the options of the two flash chips of a UEFI firmware.
pub(super) fn flash(code: &Path, variables: &Path) -> [String; 4] {
    let chip = |unit, path, more| format!("if=pflash,unit={unit},format=raw,file={}{more}", option(path));
    let drive = || "-drive".to_owned();
    [drive(), chip(0, code, ",readonly=on"), drive(), chip(1, variables, "")]
}

/// Returns the options of a credential for systemd (`systemd.exec(5)`, "CREDENTIALS").
pub(super) fn credential(name: &str, content: &str) -> [String; 2] {
    // QEMU needs commas in option values doubled.
    let content = content.replace(',', ",,");
    ["-smbios".to_owned(), format!("type=11,value=io.systemd.credential:{name}={content}")]
}

/// Returns the options of one folder of the host: the guest accesses it as this user, with owners and modes as they
/// are.
pub(super) fn share(number: usize, share: &Share) -> [String; 4] {
    let path = option(Path::new(&share.path));
    let writes = if share.read_only { "on" } else { "off" };
    [
        "-fsdev".to_owned(),
        format!("local,id=share{number},path={path},security_model=none,multidevs=remap,readonly={writes}"),
        "-device".to_owned(),
        format!("virtio-9p-pci,fsdev=share{number},mount_tag={}", tag(number)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_offered_by_their_tags() {
        let [_, folder, _, device] = share(1, &Share { path: "/a,b".into(), read_only: true });
        assert!(folder.contains("path=/a,,b,") && folder.ends_with("readonly=on"), "{folder}");
        assert_eq!(device, "virtio-9p-pci,fsdev=share1,mount_tag=belfry-share-1");
        assert!(share(0, &Share { path: "/a".into(), read_only: false })[1].ends_with("readonly=off"));
    }

    #[test]
    fn only_the_variables_of_a_firmware_are_written() {
        let [_, code, _, variables] = flash(Path::new("/f,w/code.fd"), Path::new("/t/variables.fd"));
        assert_eq!(code, "if=pflash,unit=0,format=raw,file=/f,,w/code.fd,readonly=on");
        assert_eq!(variables, "if=pflash,unit=1,format=raw,file=/t/variables.fd");
    }

    #[test]
    fn arguments_name_every_part_of_the_machine() {
        let machine = Machine {
            accelerator: Accelerator::Tcg,
            cpus: 2,
            memory: 512 << 20,
            boot: Boot::Kernel {
                kernel: Path::new("/k/vmlinuz"),
                initramfs: Path::new("/i/rd"),
                command_line: "quiet x=1",
                channel: Path::new("/c/channel.sock"),
                monitor: Path::new("/c,d/monitor.sock"),
            },
            console: Path::new("/c,d/console.log"),
            terminal: None,
            gpus: &["/g/gpu.sock".into(), "/g/second.sock".into()],
        };
        let text = arguments(&machine).join(" ");
        for part in [
            "-accel tcg,thread=multi -cpu max,family=25",
            "-machine q35,memory-backend=ram -smp 2 -m 512M",
            "memory-backend-memfd,id=ram,size=512M,share=on",
            "-append clearcpuid=cx16 mitigations=off quiet x=1 -device",
            "file,id=console,path=/c,,d/console.log",
            "name=org.belfry.0",
            "socket,id=monitor,server=on,wait=off,path=/c,,d/monitor.sock -mon chardev=monitor,mode=control",
            r#"-device {"chassis":1,"driver":"pcie-root-port","hotplug":false,"id":"gpu-port-1","slot":1} -device"#,
            r#"{"bus":"gpu-port-1","driver":"vfio-user-pci","socket":{"path":"/g/gpu.sock","type":"unix"}}"#,
            r#"{"bus":"gpu-port-2","driver":"vfio-user-pci","socket":{"path":"/g/second.sock","type":"unix"}}"#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let machine = Machine { gpus: &["/g/gpu.sock".into()], ..machine };
        let one = arguments(&machine).join(" ");
        let alone = r#"-device {"driver":"vfio-user-pci","socket":{"path":"/g/gpu.sock","type":"unix"}}"#;
        assert!(one.contains(alone) && !one.contains("root-port"), "{one}");
        let terminal = Some(Path::new("/c/terminal.sock"));
        let machine = Machine { gpus: &[], terminal, ..machine };
        let without = arguments(&machine).join(" ");
        assert!(without.contains("socket,id=console,path=/c/terminal.sock,logfile=/c,,d/console.log"));
        assert!(!without.contains("vfio-user"));
        let of_disk = arguments(&Machine { boot: Boot::Disk, ..machine }).join(" ");
        assert!(of_disk.contains("graphics=off"));
        assert!(of_disk.contains(",-cx16 ") && !of_disk.contains("-kernel") && !of_disk.contains("channel"));
    }
}
