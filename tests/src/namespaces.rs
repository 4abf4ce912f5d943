//! Network namespaces on a bridge, each with a card and an address of its own: hosts that a link can be cut to.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// The card inside each namespace.
pub(crate) const CARD: &str = "eth0";
/// How long the kernel may take to remove them.
const REMOVAL: Duration = Duration::from_secs(20);

/// Namespaces of one test. They are removed when this is dropped, and when the test's process ends in any other way.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// The third byte of their addresses, which no other test on this machine has.
    subnet: u8,
    count: u8,
    _keeper: Keeper,
}

impl Namespaces {
    /// Whether the programs that make them are there.
    pub(crate) fn programs() -> Result<()> {
        for program in ["ip", "unshare"] {
            let said = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
            said.with_context(|| format!("no `{program}`: install iproute2 and util-linux"))?;
        }
        Ok(())
    }

    /// Whether this user may make some, or why not.
    pub(crate) fn permitted() -> Result<()> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces need root");
        run("unshare --net --mount true").context("this machine refuses network namespaces")
    }

    /// `count` namespaces with links to a bridge, on which this machine has an address, too.
    pub(crate) fn make(count: u8) -> Result<Self> {
        // Fails where another test has it.
        let is_ours = |subnet: &u8| run(&format!("ip link add {} type bridge", bridge(*subnet))).is_ok();
        let subnet = (0..=u8::MAX).find(is_ours).context("every bridge of this name is taken")?;
        // From here on, dropping it removes whatever stands.
        let spaces = Self { subnet, count, _keeper: Keeper::start(subnet, count)? };
        run(&format!("ip address add {}/24 dev {}", address(subnet, 254), bridge(subnet)))?;
        run(&format!("ip link set {} up", bridge(subnet)))?;
        for host in spaces.hosts() {
            let name = spaces.name(host);
            let link = link(subnet, host);
            for line in [
                format!("ip netns add {name}"),
                format!("ip link add {link} type veth peer name {CARD} netns {name}"),
                format!("ip link set {link} master {} up", bridge(subnet)),
                format!("ip -n {name} link set lo up"),
                format!("ip -n {name} address add {}/24 dev {CARD}", spaces.address(host)),
                format!("ip -n {name} link set {CARD} up"),
            ] {
                run(&line)?;
            }
        }
        Ok(spaces)
    }

    /// The numbers of the hosts, from 1.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = u8> + use<> {
        1..=self.count
    }

    pub(crate) fn address(&self, host: u8) -> IpAddr {
        address(self.subnet, host)
    }

    /// A command that runs this program on a host.
    pub(crate) fn command(&self, host: u8, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host)]).arg(program);
        command
    }

    /// Pulls a host's cable.
    pub(crate) fn cut(&self, host: u8) -> Result<()> {
        run(&format!("ip link set {} down", link(self.subnet, host)))
    }

    /// The names of the processes on a host.
    pub(crate) fn processes(&self, host: u8) -> Result<Vec<String>> {
        let listed = Command::new("ip").args(["netns", "pids", &self.name(host)]).output()?;
        ensure!(listed.status.success(), "{} is not there", self.name(host));
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        // One that has ended meanwhile has no name.
        let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
        Ok(listed.lines().filter_map(name).map(|name| name.trim().to_owned()).collect())
    }

    fn name(&self, host: u8) -> String {
        space(self.subnet, host)
    }
}

/// A process that removes the namespaces as soon as its input ends: a killed test cannot do so itself.
#[derive(Debug)]
struct Keeper {
    process: Child,
    /// Held open as long as they are needed.
    input: Option<ChildStdin>,
}

impl Keeper {
    fn start(subnet: u8, count: u8) -> io::Result<Self> {
        let mut lines = vec!["cat > /dev/null".to_owned()];
        for host in 1..=count {
            let name = space(subnet, host);
            let link = link(subnet, host);
            lines.push(format!(
                "for p in $(ip netns pids {name}); do kill -9 $p; done; ip netns delete {name}"
            ));
            // A connection that still waits for an answer keeps the namespace itself, and its card, for minutes.
            lines.push(format!("ip link delete {link}"));
        }
        lines.push(format!("ip link delete {}", bridge(subnet)));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &lines.join("\n")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Ctrl-C is for the test to hear.
        let mut process = shell.process_group(0).spawn()?;
        let input = process.stdin.take();
        Ok(Self { process, input })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.input.take());
        let ended = crate::wait_until(REMOVAL, || Ok(self.process.try_wait()?.is_some()));
        if ended.is_err() {
            // It will not remove what it has not removed by now.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

fn bridge(subnet: u8) -> String {
    format!("bklab{subnet}")
}

fn space(subnet: u8, host: u8) -> String {
    format!("bklab{subnet}-{host}")
}

/// The end of a host's cable at the bridge.
fn link(subnet: u8, host: u8) -> String {
    format!("bklab{subnet}v{host}")
}

fn address(subnet: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 77, subnet, host).into()
}

/// Runs a line of words without a shell.
fn run(line: &str) -> Result<()> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    let output = output.with_context(|| line.to_owned())?;
    ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
