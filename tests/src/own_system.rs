//! A disk with a system of its own, made of Debian's packages as an ordinary user, to be booted by `belfry run --image`.
//!
//! The disk has a boot loader for BIOS, Debian's kernel, systemd and sshd. If asked for, it has the driver by
//! its DKMS package, built in the tree as a user's `apt install` would. Making it takes mmdebstrap and user
//! namespaces, and several minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use belfry_process::child::die_with_parent;

/// The programs that make the disk, and the packages they are in.
const TOOLS: [(&str, &str); 11] = [
    ("mmdebstrap", "mmdebstrap"),
    ("newuidmap", "uidmap"),
    ("fakeroot", "fakeroot"),
    ("mke2fs", "e2fsprogs"),
    ("sfdisk", "fdisk"),
    ("mkfs.vfat", "dosfstools"),
    ("mcopy", "mtools"),
    ("syslinux", "syslinux"),
    ("dd", "coreutils"),
    ("debugfs", "e2fsprogs"),
    ("qemu-img", "qemu-utils"),
];
/// The boot loader's first sector (package `syslinux-common`).
const BOOT_SECTOR: &str = "/usr/lib/syslinux/mbr/gptmbr.bin";
const SUITE: &str = "trixie";
/// Packages of a system that is booted and looked at.
const SYSTEM: &str =
    "ca-certificates,dbus,iproute2,kmod,linux-image-amd64,openssh-server,rocminfo,systemd-sysv,udev";
/// Packages that building the driver needs besides.
const BUILD: &str = "dkms,gcc,libc6-dev,linux-headers-amd64,make";

/// Part of the driver that a disk has.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// The driver, by this package.
    Driver(&'a Path),
    /// Packages that building the driver needs.
    Tools,
    /// Nothing.
    Bare,
}

/// From the tree's tar to a disk: a FAT file system with kernel and boot loader, and an ext4 file system.
const ASSEMBLE: &str = r#"set -e
export PATH="$PATH:/usr/sbin:/sbin"
mkdir tree
tar -xf root.tar -C tree --exclude='./dev/*'
truncate -s 128M esp.img
mkfs.vfat -F 32 -n ESP esp.img >&2
cat > syslinux.cfg <<END
SERIAL 0 115200
DEFAULT linux
PROMPT 0
LABEL linux
 LINUX /vmlinuz
 INITRD /initrd.img
 APPEND root=LABEL=root rw console=ttyS0,115200
END
mcopy -i esp.img tree/boot/vmlinuz-* ::/vmlinuz
mcopy -i esp.img tree/boot/initrd.img-* ::/initrd.img
mcopy -i esp.img syslinux.cfg ::/syslinux.cfg
syslinux --install esp.img
mke2fs -q -F -t ext4 -L root -d tree root.ext4 2G
truncate -s 2200M disk.raw
sfdisk -q disk.raw <<END
label: gpt
start=2048, size=262144, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, attrs="LegacyBIOSBootable"
start=264192, size=4194304, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709
END
dd if=BOOT_SECTOR of=disk.raw bs=440 count=1 conv=notrunc status=none
dd if=esp.img of=disk.raw bs=1M seek=1 conv=notrunc,sparse status=none
dd if=root.ext4 of=disk.raw bs=1M seek=129 conv=notrunc,sparse status=none
"#;

/// Makes the disk in `directory` and answers its path.
///
/// # Errors
///
/// Programs that are missing, all of them with the package to install; packages that cannot be had; a driver that does
/// not build.
pub fn make(directory: &Path, content: Content<'_>) -> Result<PathBuf> {
    check_tools()?;
    let packages = match content {
        Content::Bare => SYSTEM.to_owned(),
        Content::Driver(_) | Content::Tools => format!("{SYSTEM},{BUILD}"),
    };
    let hook = |text: String| format!("--customize-hook={text}");
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--mode=auto", "--variant=minbase", "--quiet"])
        .arg(format!("--include={packages}"))
        .arg(hook(r#"printf "[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n" > "$1/etc/systemd/network/80-dhcp.network""#.into()))
        .arg(hook(r#"chroot "$1" systemctl enable systemd-networkd"#.into()))
        .arg(hook(r#"echo "LABEL=root / ext4 rw 0 1" > "$1/etc/fstab""#.into()))
        .arg(hook(r#"chroot "$1" passwd -d root"#.into()))
        .current_dir(directory);
    if let Content::Driver(package) = content {
        let name = package.file_name().context("a package")?.to_string_lossy().into_owned();
        // Hooks of this kind read the file as the user outside.
        command.arg(hook(format!("copy-in {} /root", package.display())));
        command.arg(hook(format!(r#"chroot "$1" dpkg -i /root/{name}"#)));
    }
    command.args([SUITE, "root.tar"]).args(mirror()?);
    run(command).context("mmdebstrap")?;
    let mut command = Command::new("fakeroot");
    command.args(["sh", "-c", &ASSEMBLE.replace("BOOT_SECTOR", BOOT_SECTOR)]).current_dir(directory);
    run(command).context("putting the disk together")?;
    for left in ["root.tar", "esp.img", "root.ext4"] {
        fs::remove_file(directory.join(left))?;
    }
    fs::remove_dir_all(directory.join("tree"))?;
    Ok(directory.join("disk.raw"))
}

fn check_tools() -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let mut missing: Vec<&str> =
        TOOLS.iter().filter(|(program, _)| !there(program)).map(|(_, package)| *package).collect();
    if !Path::new(BOOT_SECTOR).is_file() {
        missing.push("syslinux-common");
    }
    ensure!(missing.is_empty(), "making a disk needs more programs: apt install {}", missing.join(" "));
    Ok(())
}

/// The archive as this machine's apt has it, for mmdebstrap; by default it knows Debian's own.
fn mirror() -> Result<Option<String>> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(SITE) $(ORIGIN)", "Created-By: Packages"])
        .output()
        .context("apt-get indextargets")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let site = |line: &str| line.strip_suffix(" Debian").map(str::to_owned);
    Ok(text.lines().filter_map(site).find(|site| !site.contains("security")))
}

fn run(mut command: Command) -> Result<()> {
    die_with_parent(&mut command);
    let status = command.stdin(Stdio::null()).status()?;
    ensure!(status.success(), "{status}");
    Ok(())
}
