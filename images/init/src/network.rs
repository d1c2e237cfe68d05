//! The network card: one address, one way out, one resolver.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use belfry_channel::Network;

use crate::{annotate, sys};

/// Longest time a card may take to appear once its driver is loaded.
const PATIENCE: Duration = Duration::from_secs(10);
const RESOLVER: &str = "/etc/resolv.conf";

/// Gives the card its address and its route, and programs their resolver.
pub(crate) fn set_up(network: &Network) -> io::Result<()> {
    let card = wait_for_card()?;
    sys::set_address(&card, network.address, network.mask)
        .map_err(|error| annotate(&format!("give {card} its address"), &error))?;
    sys::add_default_route(network.gateway).map_err(|error| annotate("set the default route", &error))?;
    // Trees of systemd have a link to a file that its resolver would write, and a link would be followed.
    match fs::remove_file(RESOLVER) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(annotate(RESOLVER, &error)),
        _ => {}
    }
    let line = format!("nameserver {}\n", Ipv4Addr::from(network.resolver));
    fs::write(RESOLVER, line).map_err(|error| annotate(RESOLVER, &error))
}

/// The first network interface that is a device.
fn wait_for_card() -> io::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for entry in fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
            if Path::new(&entry.path()).join("device").exists() {
                return Ok(entry.file_name().to_string_lossy().into_owned());
            }
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the machine has no network card"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
