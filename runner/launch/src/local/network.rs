//! The network of this machine, as far as ranks on others meet it: the card behind an address, the kernel's buffers, the wall clock.

use serde::{Deserialize, Serialize};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use sysinfo::Networks;

/// Network facts of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFacts {
    /// The card that has the address of its door; `None` where none has.
    pub interface: Option<Interface>,
    /// The most bytes that the kernel buffers for a socket that receives; `None` where it does not say.
    pub receive_buffer: Option<u64>,
    /// The same for one that sends.
    pub send_buffer: Option<u64>,
    /// Nanoseconds since 1970 by its wall clock.
    pub wall: i64,
}

/// Network card of a machine, real or virtual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// As the kernel calls it.
    pub name: String,
    /// Bits per second; `None` where the driver does not say, as of loopback and virtual cards.
    pub speed: Option<u64>,
    /// Bytes of the largest packet.
    pub mtu: Option<u64>,
}

/// Those of this machine, whose door has this address.
#[expect(clippy::disallowed_methods, reason = "the wall clock itself is asked for")]
pub(crate) fn network(door: Option<IpAddr>) -> NetworkFacts {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    NetworkFacts {
        interface: door.and_then(interface),
        // TCP takes the third number of its own lists, whatever the limit of other sockets is.
        receive_buffer: largest(Path::new("/proc/sys/net/ipv4/tcp_rmem")),
        send_buffer: largest(Path::new("/proc/sys/net/ipv4/tcp_wmem")),
        wall: i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX),
    }
}

fn interface(address: IpAddr) -> Option<Interface> {
    let networks = Networks::new_with_refreshed_list().ok()?;
    let has = |networks: &[sysinfo::IpNetwork]| networks.iter().any(|network| network.addr == address);
    let (name, _) = networks.iter().find(|(_, data)| has(data.ip_networks())).or_else(|| {
        // All addresses that begin with 127 are loopback's, which lists the first.
        networks.iter().find(|(name, _)| address.is_loopback() && *name == "lo")
    })?;
    let folder = Path::new("/sys/class/net").join(name);
    let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    Some(Interface {
        name: name.to_string_lossy().into_owned(),
        // Of a card without a link the driver says -1, or nothing.
        speed: number("speed").filter(|speed| (1..1 << 31).contains(speed)).map(|speed| speed * 1_000_000),
        mtu: number("mtu"),
    })
}

/// The third of `4096 131072 6291456`.
fn largest(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_has_a_card_and_the_kernel_its_buffers() {
        for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)] {
            let found = network(Some(address.into()));
            assert_eq!(found.interface.as_ref().map(|card| card.name.as_str()), Some("lo"), "{found:?}");
            assert!(found.receive_buffer.is_some_and(|bytes| bytes > 1000), "{found:?}");
            assert!(found.wall > 1_700_000_000_000_000_000, "{found:?}");
        }
        let nowhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));
        assert_eq!(network(Some(nowhere)).interface, None);
        assert_eq!(network(None).interface, None);
    }
}
