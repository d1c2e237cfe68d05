//! The network of guests: addresses, and passt, which opens this user's sockets for a guest on Belfry's own machine.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use belfry_channel::Network;
use belfry_image::tools::{self, Tool};
use belfry_image::{Cache, FetchError, Progress};
use belfry_process::child::{KillOnDrop, die_with_parent, inherit};
use belfry_process::scratch::Scratch;

/// Addresses of QEMU's user network (`-netdev user`), which are always these; passt gets them, too.
pub(super) const USER_NETWORK: Network = Network {
    address: [10, 0, 2, 15],
    mask: [255, 255, 255, 0],
    gateway: [10, 0, 2, 2],
    resolver: [10, 0, 2, 3],
};

/// Reason for having no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The program is not there.
    #[error(
        "--net user needs passt on Belfry's own machine: {0}; install the package passt, or use --mode qemu"
    )]
    Absent(#[from] FetchError),
    /// passt could not be started.
    #[error("cannot start passt for the guest's network: {0}")]
    Start(#[from] io::Error),
    /// passt has ended.
    #[error("passt, which the guest's network is behind, ended ({status}){messages}")]
    Ended {
        /// Its exit status, in words.
        status: String,
        /// Its messages, each on a line of its own after a newline.
        messages: String,
    },
}

/// A running passt; it ends when this is dropped, and when the machine closes its end of the stream.
#[derive(Debug)]
pub(super) struct Passt {
    child: KillOnDrop,
    folder: Scratch,
}

impl Passt {
    /// Starts passt; the stream carries the guest's frames.
    ///
    /// No connection from outside reaches the guest. This machine's own address in the network is the gateway's.
    pub(super) fn start(cache: &Cache) -> Result<(Self, UnixStream), NetworkError> {
        let tool = tools::passt(cache, &Progress::silent())?;
        let folder = Scratch::new()?;
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(&tool.program);
        command.args(&tool.arguments).args(arguments(theirs.as_raw_fd()));
        if says_how_to_map_loopback(&tool)? {
            command.args(["--map-host-loopback".to_owned(), text(USER_NETWORK.gateway)]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(log(&folder))?);
        inherit(&mut command, theirs);
        die_with_parent(&mut command);
        log::debug!(target: "guest", "starting {command:?}");
        let child = KillOnDrop(command.spawn()?);
        Ok((Self { child, folder }, ours))
    }

    /// Fails if passt has ended; passt should run as long as the machine.
    pub(super) fn check(&mut self) -> Result<(), NetworkError> {
        let Some(status) = self.child.0.try_wait()? else { return Ok(()) };
        let said = fs::read_to_string(log(&self.folder)).unwrap_or_default();
        let messages = said.lines().fold(String::new(), |text, line| text + "\n" + line);
        Err(NetworkError::Ended { status: status.to_string(), messages })
    }
}

fn log(folder: &Scratch) -> PathBuf {
    folder.path().join("passt.log")
}

/// Returns true if passt has an option for the host's address (since 2024). Without the option, the host has its
/// gateway's address, but another one on a machine without routes.
fn says_how_to_map_loopback(tool: &Tool) -> io::Result<bool> {
    let output =
        Command::new(&tool.program).args(&tool.arguments).arg("--help").stdin(Stdio::null()).output()?;
    let says = |stream: &[u8]| String::from_utf8_lossy(stream).contains("--map-host-loopback");
    Ok(says(&output.stdout) || says(&output.stderr))
}

fn text(address: [u8; 4]) -> String {
    Ipv4Addr::from(address).to_string()
}

/// Returns the options for passt; long names are used only if every version has them.
fn arguments(descriptor: i32) -> Vec<String> {
    let Network { address, mask, gateway, resolver } = USER_NETWORK;
    let options = [
        ("--fd", descriptor.to_string()),
        ("--address", text(address)),
        ("--netmask", text(mask)),
        ("--gateway", text(gateway)),
        ("--dns-forward", text(resolver)),
        ("--tcp-ports", "none".to_owned()),
        ("--udp-ports", "none".to_owned()),
    ];
    let flags = ["--foreground", "--quiet", "--ipv4-only"].map(str::to_owned);
    flags.into_iter().chain(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value])).collect()
}
