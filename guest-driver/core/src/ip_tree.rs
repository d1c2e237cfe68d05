//! The IP discovery table as files below the PCI device's directory (`amdgpu_discovery.c`, "ip discovery sysfs").
//!
//! `ip_discovery/die/0` has `num_ips`, a directory for each kind of block by its number, links to them by name, and in each
//! of these a directory for each instance.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

use belfry_abi::regs::Ip;

use crate::config::{Block, Config};
use crate::errno::{Errno, Result};

/// Name of the tree, which its paths begin with.
pub(crate) const ROOT: &str = "ip_discovery";

/// Names of the kinds of blocks (`hw_id_names`).
const NAMES: &[(Ip, &str)] = &[
    (Ip::GC, "GC"),
    (Ip::SDMA0, "SDMA0"),
    (Ip::SDMA1, "SDMA1"),
    (Ip::MMHUB, "MMHUB"),
    (Ip::ATHUB, "ATHUB"),
    (Ip::HDP, "HDP"),
    (Ip::OSSSYS, "OSSSYS"),
    (Ip::NBIF, "NBIF"),
    (Ip::MP0, "MP0"),
    (Ip::MP1, "MP1"),
    (Ip::SMUIO, "SMUIO"),
    (Ip::THM, "THM"),
    (Ip::UMC, "UMC"),
    (Ip::VCN, "UVD"),
];

/// Files of an instance.
const FILES: [&str; 8] =
    ["hw_id", "num_instance", "major", "minor", "revision", "harvest", "num_base_addresses", "base_addr"];

/// The parts of a path below the tree.
fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// The number a directory's name is.
fn number<T: core::str::FromStr + ToString>(name: &str) -> Result<T> {
    let number: T = name.parse().map_err(|_| Errno::ENOENT)?;
    if number.to_string() == name { Ok(number) } else { Err(Errno::ENOENT) }
}

/// The numbers of the dies.
fn dies(config: &Config) -> Vec<u8> {
    let mut dies: Vec<u8> = config.blocks.iter().map(|block| block.die).collect();
    dies.sort_unstable();
    dies.dedup();
    dies
}

/// The blocks of a die.
fn blocks_of<'a>(config: &'a Config, die: &str) -> Result<Vec<&'a Block>> {
    let die: u8 = number(die)?;
    let found: Vec<_> = config.blocks.iter().filter(|block| block.die == die).collect();
    if found.is_empty() { Err(Errno::ENOENT) } else { Ok(found) }
}

fn instances<'a>(config: &'a Config, die: &str, kind: &str) -> Result<Vec<&'a Block>> {
    let kind: u16 = number(kind)?;
    let mut found = blocks_of(config, die)?;
    found.retain(|block| block.ip.0 == kind);
    if found.is_empty() { Err(Errno::ENOENT) } else { Ok(found) }
}

/// Lists a directory of the tree: directories end in a slash, links are `NAME>TARGET` and come behind their targets.
pub(crate) fn list(config: &Config, path: &str) -> Result<Vec<String>> {
    match parts(path)[..] {
        [] => Ok(vec!["die/".to_string()]),
        ["die"] => Ok(dies(config).iter().map(|die| format!("{die}/")).collect()),
        ["die", die] => {
            let mut kinds: Vec<u16> = blocks_of(config, die)?.iter().map(|block| block.ip.0).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let mut names = vec!["num_ips".to_string()];
            names.extend(kinds.iter().map(|kind| format!("{kind}/")));
            names.extend(
                NAMES
                    .iter()
                    .filter(|(ip, _)| kinds.contains(&ip.0))
                    .map(|(ip, name)| format!("{name}>{}", ip.0)),
            );
            Ok(names)
        }
        ["die", die, kind] => {
            Ok(instances(config, die, kind)?.iter().map(|block| format!("{}/", block.instance)).collect())
        }
        ["die", die, kind, instance] => {
            let instance: u8 = number(instance)?;
            if instances(config, die, kind)?.iter().any(|block| block.instance == instance) {
                Ok(FILES.map(ToString::to_string).to_vec())
            } else {
                Err(Errno::ENOENT)
            }
        }
        _ => Err(Errno::ENOENT),
    }
}

/// Reads a file of the tree.
pub(crate) fn read(config: &Config, path: &str) -> Result<String> {
    match parts(path)[..] {
        ["die", die, "num_ips"] => Ok(format!("{}\n", blocks_of(config, die)?.len())),
        ["die", die, kind, instance, file] => {
            let instance: u8 = number(instance)?;
            let instances = instances(config, die, kind)?;
            let block = instances.iter().find(|block| block.instance == instance).ok_or(Errno::ENOENT)?;
            let (major, minor, revision) = block.version;
            let mut text = String::new();
            // Writing to a string cannot fail.
            let _ = match file {
                "hw_id" => writeln!(text, "{}", block.ip.0),
                "num_instance" => writeln!(text, "{}", block.instance),
                "major" => writeln!(text, "{major}"),
                "minor" => writeln!(text, "{minor}"),
                "revision" => writeln!(text, "{revision}"),
                "harvest" => writeln!(text, "{:#03X}", u8::from(block.harvested)),
                "num_base_addresses" => writeln!(text, "{}", block.bases.len()),
                "base_addr" => block.bases.iter().try_for_each(|base| writeln!(text, "{base:#010X}")),
                _ => return Err(Errno::ENOENT),
            };
            // As `0x%X` prints it.
            Ok(text.replace("0X", "0x"))
        }
        _ => Err(Errno::ENOENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let block = |ip, instance, harvested, bases: &[u32]| Block {
            die: 0,
            ip,
            instance,
            version: (11, 0, 3),
            harvested,
            bases: bases.to_vec(),
        };
        let blocks = vec![
            block(Ip::GC, 0, false, &[0x1260, 0xa000, 0x240_2c00]),
            block(Ip::VCN, 0, true, &[0x7800]),
            block(Ip::VCN, 1, false, &[]),
            block(Ip(9999), 0, false, &[1]),
        ];
        Config { blocks, ..Config::default() }
    }

    #[test]
    fn tree_has_every_instance_and_links_for_the_kinds_with_names() {
        let config = config();
        let gc = Ip::GC.0;
        let vcn = Ip::VCN.0;
        assert_eq!(list(&config, "").unwrap(), ["die/"]);
        let names = list(&config, "die/0").unwrap();
        for name in ["num_ips".to_string(), format!("{gc}/"), format!("{vcn}/"), "9999/".to_string()] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        assert!(names.ends_with(&[format!("GC>{gc}"), format!("UVD>{vcn}")]), "{names:?}");
        assert_eq!(list(&config, &format!("die/0/{vcn}")).unwrap(), ["0/", "1/"]);
        assert_eq!(list(&config, &format!("die/0/{vcn}/1")).unwrap(), FILES);
        assert_eq!(read(&config, "die/0/num_ips").unwrap(), "4\n");
    }

    #[test]
    fn files_are_as_linux_prints_them() {
        let config = config();
        let read = |ip: Ip, file: &str| read(&config, &format!("die/0/{}/0/{file}", ip.0)).unwrap();
        for (file, expected) in [
            ("hw_id", format!("{}\n", Ip::GC.0)),
            ("num_instance", "0\n".to_string()),
            ("major", "11\n".to_string()),
            ("minor", "0\n".to_string()),
            ("revision", "3\n".to_string()),
            ("harvest", "0x0\n".to_string()),
            ("num_base_addresses", "3\n".to_string()),
            ("base_addr", "0x00001260\n0x0000A000\n0x02402C00\n".to_string()),
        ] {
            assert_eq!(read(Ip::GC, file), expected, "{file}");
        }
        assert_eq!(read(Ip::VCN, "harvest"), "0x1\n");
    }

    #[test]
    fn other_paths_are_no_files() {
        let config = config();
        for path in
            ["x", "die/1", "die/0/8888", "die/0/9999/1", "die/0/9999/00", "die/0/+9999/0", "die/0/9999/0/x"]
        {
            assert_eq!(list(&config, path), Err(Errno::ENOENT), "{path}");
            assert_eq!(read(&config, path), Err(Errno::ENOENT), "{path}");
        }
    }
}
