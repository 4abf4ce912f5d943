//! Network namespaces on a bridge, each with a card that the kernel's token bucket filter shapes.
//!
//! Needs root, `ip` and `tc`. Nothing of it is left behind, whatever happens.

use std::net::Ipv4Addr;

use anyhow::{Result, bail};

use crate::child::Child;

/// Of payload, in bytes per second: 1 Gbit/s.
pub(super) const BANDWIDTH: u64 = 125_000_000;
/// Burst size of the filter. A smaller one costs throughput, a larger one favours short transfers.
pub(super) const BURST: &str = "128kb";
/// The card inside each namespace.
pub(super) const CARD: &str = "eth0";
/// A full frame on the wire and its TCP payload: the kernel counts the former, an emulated card the latter.
const FRAME: (u64, u64) = (1514, 1448);
/// Namespaces, and ranks at most.
const RANKS: u32 = 4;
/// The address of this machine itself on the bridge.
pub(super) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);

/// The filter's rate at which full frames carry the payload of an emulated card, in bits per second.
pub(super) fn frame_rate() -> u64 {
    BANDWIDTH * 8 * FRAME.0 / FRAME.1
}

/// The address of a rank's namespace.
pub(super) fn address(rank: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 78, 0, 1)) + rank)
}

/// The namespaces; dropping it removes them.
pub(super) struct Namespaces(());

impl Namespaces {
    pub(super) fn make() -> Result<Self> {
        let id = Child::new("id").argument("-u").read()?;
        if id.trim() != "0" {
            bail!("network namespaces need root: run this benchmark as root");
        }
        // From here on, dropping it takes down whatever stands.
        let spaces = Self(());
        take_down();
        let rate = frame_rate();
        let shape = format!("root tbf rate {rate}bit burst {BURST} latency 20ms");
        call("ip link add bakeoffbr type bridge")?;
        call(&format!("ip address add {OUTSIDE}/24 dev bakeoffbr"))?;
        call("ip link set bakeoffbr up")?;
        for rank in 0..RANKS {
            let name = name(rank);
            let link = format!("bakeoffv{rank}");
            let inside = format!("ip netns exec {name}");
            for line in [
                format!("ip netns add {name}"),
                format!("ip link add {link} type veth peer name {CARD} netns {name}"),
                format!("ip link set {link} gso_max_size 16384 master bakeoffbr"),
                format!("ip link set {link} up"),
                format!("{inside} ip link set lo up"),
                format!("{inside} ip link set {CARD} gso_max_size 16384"),
                format!("{inside} ip address add {}/24 dev {CARD}", address(rank)),
                format!("{inside} ip link set {CARD} up"),
                format!("{inside} tc qdisc replace dev {CARD} {shape}"),
                format!("tc qdisc replace dev {link} {shape}"),
            ] {
                call(&line)?;
            }
        }
        Ok(spaces)
    }
}

/// A program in the namespace of a rank, to be given its arguments.
pub(super) fn inside(rank: u32, program: &str) -> Child {
    Child::new("ip").arguments(&["netns", "exec", &name(rank), program])
}

/// The namespace of a rank.
pub(super) fn name(rank: u32) -> String {
    format!("bakeoff{rank}")
}

fn take_down() {
    for rank in 0..RANKS {
        // Fails where there is none.
        let _ = Child::new("ip").arguments(&["netns", "delete", &name(rank)]).read();
    }
    let _ = Child::new("ip").arguments(&["link", "delete", "bakeoffbr"]).read();
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        take_down();
    }
}

fn call(line: &str) -> Result<()> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    Child::new(program).arguments(&words.collect::<Vec<_>>()).read().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_consecutive_addresses_and_full_frames_carry_a_gigabit() {
        assert_eq!([0, 3].map(address).map(|one| one.to_string()), ["10.78.0.1", "10.78.0.4"]);
        assert_eq!(frame_rate(), 1_045_580_110);
    }
}
