//! Owner of the other end of a TCP connection.
//!
//! The kernel's tables of sockets (`/proc/net/tcp`, Linux `Documentation/networking/proc_net_tcp.rst`; `get_tcp4_sock`
//! and `get_timewait4_sock`, `net/ipv4/tcp_ipv4.c`) have the user of each socket. A socket that its process has closed
//! is there without an inode and as root's, so that only established connections with an inode count. Bytes that have
//! come over a connection may be older than the table: they count as this user's only if the table still has both ends
//! afterwards.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt as _;

/// `TCP_ESTABLISHED`, `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;

/// Number of looks at the tables: one of many sockets may leave a row out while others come and go.
const LOOKS: usize = 3;

/// A row of the tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    user: u32,
    inode: u64,
}

/// Returns true if the other end of a connection may command this user's programs. It belongs to the same user, or to
/// another machine: its user is unknown, and this user has let it in by the address.
pub(super) fn may_command(stream: &TcpStream) -> io::Result<bool> {
    let (here, there) = (canonical(stream.local_addr()?), canonical(stream.peer_addr()?));
    if !is_of_this_machine(there.ip()) {
        return Ok(true);
    }
    let (inode, user) = (inode(stream)?, rustix::process::geteuid().as_raw());
    Ok((0..LOOKS).any(|_| are_ends(&both_tables(), (here, inode), (there, user))))
}

fn both_tables() -> Vec<Row> {
    // A machine without IPv6 has no such table.
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(fs::read_to_string);
    tables.iter().flatten().flat_map(|table| rows(table)).collect()
}

/// Returns true if rows have both ends of a connection: the one here with its inode, and the one there with its user.
fn are_ends(rows: &[Row], (here, inode): (SocketAddr, u64), (there, user): (SocketAddr, u32)) -> bool {
    let has = |local, remote, wanted: &dyn Fn(&Row) -> bool| {
        // The kernel may list a row twice while others come and go.
        let mut ends = rows.iter().filter(|row| (row.local, row.remote) == (local, remote)).peekable();
        ends.peek().is_some() && ends.all(|row| row.state == ESTABLISHED && wanted(row))
    };
    has(here, there, &|row| row.inode == inode) && has(there, here, &|row| row.inode != 0 && row.user == user)
}

fn inode(stream: &TcpStream) -> io::Result<u64> {
    use std::os::fd::AsFd as _;
    Ok(fs::File::from(stream.as_fd().try_clone_to_owned()?).metadata()?.ino())
}

/// Returns true if an address is one of this machine's: a socket can have it.
fn is_of_this_machine(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// An address without the ways in which the same one is written: IPv4 in IPv6, and the scope.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The rows of a table; lines that are none are left out.
fn rows(table: &str) -> impl Iterator<Item = Row> + '_ {
    table.lines().filter_map(row)
}

/// A row: addresses as words in hexadecimal, the state, the user in the eighth column and the inode in the tenth.
fn row(line: &str) -> Option<Row> {
    let mut columns = line.split_whitespace().skip(1);
    let (local, remote) = (address(columns.next()?)?, address(columns.next()?)?);
    let state = u8::from_str_radix(columns.next()?, 16).ok()?;
    let user = columns.nth(3)?.parse().ok()?;
    let inode = columns.nth(1)?.parse().ok()?;
    Some(Row { local, remote, state, user, inode })
}

/// `0100007F:0D05`: the words are in the processor's order of bytes, the port is a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let word = u32::from_str_radix(words.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match words.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (at, bytes) in octets.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *bytes = word(at)?;
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        \x20  0: 0100007F:0D05 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1\n\
        \x20  1: 0100007F:9C40 0100007F:0D05 01 00000000:00000000 00:00000000 00000000  1001        0 12 1\n\
        \x20  2: 0100007F:0D05 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 13 1\n\
        \x20  3: 0000000000000000FFFF00000100007F:0D06 0000000000000000FFFF00000100007F:9C41 01 0:0 00:0 0  1000 0 14 1\n";

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn table_is_read() {
        let rows: Vec<Row> = rows(TABLE).collect();
        let [listens, there, _, mapped] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((listens.local, listens.state), (at(0x0d05), 10));
        let wanted = Row { local: at(40000), remote: at(0x0d05), state: 1, user: 1001, inode: 12 };
        assert_eq!(*there, wanted);
        assert_eq!((mapped.local, mapped.remote), (at(0x0d06), at(40001)));
        assert_eq!(super::rows("no table\n1: 0:0 0:0 01").count(), 0);
    }

    #[test]
    fn ends_are_established_and_of_the_user() {
        let rows: Vec<Row> = rows(TABLE).collect();
        let (here, there) = ((at(0x0d05), 13), (at(40000), 1001));
        assert!(are_ends(&rows, here, there));
        assert!(!are_ends(&rows, here, (there.0, 1000)), "another user's");
        assert!(!are_ends(&rows, (here.0, 99), there), "another connection between the same ports");
        assert!(!are_ends(&rows, here, (at(40001), 1001)), "another port");
        assert!(!are_ends(&[], here, there));
    }

    /// A socket that its process has closed is listed as root's: it has no owner.
    #[test]
    fn closed_sockets_are_nobodys() {
        let mut rows: Vec<Row> = rows(TABLE).collect();
        let (here, there) = ((at(0x0d05), 13), (at(40000), 0));
        for (state, inode) in [(5, 0), (4, 0), (6, 0), (1, 0)] {
            rows[1] = Row { state, inode, user: 0, ..rows[1] };
            assert!(!are_ends(&rows, here, there), "state {state}");
        }
        rows[1] = Row { state: 1, inode: 12, user: 0, ..rows[1] };
        assert!(are_ends(&rows, here, there));
        rows[2].state = 8;
        assert!(!are_ends(&rows, here, there), "the other end has said that it ends");
    }

    #[test]
    fn own_connections_may_command_until_they_are_closed() {
        // Also to the address for everything, over IPv4 where that is IPv6's.
        for (address, reach) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::]:0", "127.0.0.1"),
        ] {
            // A machine without IPv6 has no such address.
            let Ok(listener) = TcpListener::bind(address) else {
                assert!(address.starts_with('['), "{address}");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((reach, port)).unwrap();
            let (served, _) = listener.accept().unwrap();
            assert!(may_command(&served).unwrap(), "{address}");
            drop(client);
            // Root's processes would be taken for this one otherwise, and they may be this user's.
            assert!(!may_command(&served).unwrap_or(false), "{address}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        for (address, known) in [("127.0.0.9", true), ("::1", true), ("203.0.113.1", false)] {
            assert_eq!(is_of_this_machine(address.parse().unwrap()), known, "{address}");
        }
    }
}
