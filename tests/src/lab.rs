//! Hosts on this machine: a real `sshd` on each of two addresses of the loopback, or in each of three network namespaces, with its
//! own keys and configuration.

use crate::namespaces::Namespaces;
use crate::{Desk, DriverProcess};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Hosts `lab1`, `lab2` and `lab3`: addresses of the loopback, where nothing listens at the third, or network namespaces.
/// Dropping it stops the daemons.
#[derive(Debug)]
pub struct Lab {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
    spaces: Option<Namespaces>,
    /// The port that the daemons listen at.
    pub port: u16,
}

impl Lab {
    /// Whether there is a daemon; says that a test does not run where there is none.
    ///
    /// # Panics
    /// There is none, and no test may be left out.
    pub fn is_possible() -> bool {
        runs(&sshd().map(drop))
    }

    /// The same for hosts in network namespaces, which need root and a kernel that lets it make some: where they are refused, their
    /// tests do not run.
    ///
    /// # Panics
    /// A program is missing, and no test may be left out.
    pub fn is_possible_in_namespaces() -> bool {
        runs(&sshd().and_then(|_| Namespaces::programs())) && allowed(&Namespaces::permitted())
    }

    /// Starts the daemons. Their hosts share a cache that later tests find filled, as hosts do after the first run.
    pub fn start() -> Result<Self> {
        Self::with_cache(&shared_cache()?)
    }

    /// The same with a cache in this empty folder, into which the programs that earlier tests brought are linked.
    pub fn with_filled_cache(cache: &Path) -> Result<Self> {
        for kind in ["agents", "files"] {
            fs::create_dir(cache.join(kind))?;
            let brought = fs::read_dir(shared_cache()?.join(kind));
            // A name with an extension is that of a file that is still arriving.
            let complete = |file: &fs::DirEntry| Path::new(&file.file_name()).extension().is_none();
            for file in brought.into_iter().flatten().filter_map(Result::ok).filter(complete) {
                // On another file system it is brought anew.
                let _ = fs::hard_link(file.path(), cache.join(kind).join(file.file_name()));
            }
        }
        Self::with_cache(cache)
    }

    /// The same with another folder for the hosts' cache.
    pub fn with_cache(cache: &Path) -> Result<Self> {
        let address = |host| IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
        let mut lab = Self::furnished(cache, None, &[1, 2, 3].map(address))?;
        for host in [1, 2] {
            lab.listen(host, address(host))?;
        }
        Ok(lab)
    }

    /// Three hosts that have nothing in common but a switch and their disk: `ssh` reaches them at the addresses of their own cards.
    pub fn in_namespaces() -> Result<Self> {
        let spaces = Namespaces::make(3)?;
        let addresses: Vec<(u8, IpAddr)> = spaces.hosts().map(|host| (host, spaces.address(host))).collect();
        let only: Vec<IpAddr> = addresses.iter().map(|(_, address)| *address).collect();
        let mut lab = Self::furnished(&shared_cache()?, Some(spaces), &only)?;
        for (host, address) in addresses {
            lab.listen(host, address)?;
        }
        Ok(lab)
    }

    /// Keys and configurations for hosts at these addresses.
    fn furnished(cache: &Path, spaces: Option<Namespaces>, addresses: &[IpAddr]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        for key in ["host", "user", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key))
                .status()
                .context("ssh-keygen")?;
            ensure!(made.success(), "ssh-keygen made no key");
        }
        fs::copy(at("user.pub"), at("authorized"))?;
        let port = free_port()?;
        let path = |name: &str| at(name).display().to_string();
        fs::write(
            at("sshd_config"),
            format!(
                "HostKey {}\nAuthorizedKeysFile {}\n\
                 PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 SetEnv BAKEOFF_CACHE={}\n",
                path("host"),
                path("authorized"),
                cache.display()
            ),
        )?;
        let public = fs::read_to_string(at("host.pub"))?;
        let key: Vec<&str> = public.split_whitespace().take(2).collect();
        let known: Vec<String> = addresses.iter().map(|address| format!("[{address}]:{port}")).collect();
        fs::write(at("known"), format!("{} {}\n", known.join(","), key.join(" ")))?;
        let named = addresses.iter().zip(1..);
        let hosts: Vec<String> =
            named.map(|(address, host)| format!("Host lab{host}\n  HostName {address}\n")).collect();
        fs::write(
            at("config"),
            format!(
                "{}Host *\n  \
                 Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n",
                hosts.concat(),
                path("user"),
                path("known")
            ),
        )?;
        let ssh = at("ssh");
        fs::write(&ssh, format!("#!/bin/sh\nexec ssh -F {} \"$@\"\n", path("config")))?;
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
        // The folder that a daemon of root wants for its unprivileged half.
        let _ = fs::create_dir_all("/run/sshd");
        Ok(Self { folder, daemons: Vec::new(), spaces, port })
    }

    /// Starts a host's daemon and waits until it listens.
    fn listen(&mut self, host: u8, address: IpAddr) -> Result<()> {
        let log = self.at(&format!("sshd{host}.log"));
        let mut command = match &self.spaces {
            Some(spaces) => spaces.command(host, &sshd()?),
            None => Command::new(sshd()?),
        };
        let daemon = command
            .args(["-D", "-e", "-o", &format!("ListenAddress={address}:{}", self.port), "-f"])
            .arg(self.at("sshd_config"))
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("sshd")?;
        self.daemons.push(daemon);
        crate::wait_until(Duration::from_secs(10), || Ok(TcpStream::connect((address, self.port)).is_ok()))
            .with_context(|| fs::read_to_string(log).unwrap_or_default())
    }

    /// Pulls the cable of a host in a namespace.
    pub fn cut(&self, host: u8) -> Result<()> {
        self.spaces.as_ref().context("these hosts have no cables")?.cut(host)
    }

    /// The names of the processes on all hosts in namespaces, without those of the daemons and their sessions.
    pub fn processes(&self) -> Result<Vec<String>> {
        let spaces = self.spaces.as_ref().context("these hosts share their processes")?;
        let mut names = Vec::new();
        for host in spaces.hosts() {
            names.extend(spaces.processes(host)?);
        }
        names.retain(|name| !name.starts_with("sshd"));
        Ok(names)
    }

    /// A file of the daemon's folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `bakeoff` with these arguments at a desk, where `ssh` knows the hosts.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        desk: &Desk,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Command> {
        let mut command = desk.command(arguments)?;
        command.env("BAKEOFF_SSH", self.at("ssh"));
        Ok(command)
    }

    /// Starts `bakeoff` with these arguments at a desk, where `ssh` knows the hosts.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        desk: &Desk,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<DriverProcess> {
        DriverProcess::start(self.command(desk, arguments)?)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // It may have ended already.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Whether a test runs, by the programs that it needs; says so where it does not.
fn runs(needed: &Result<()>) -> bool {
    let required = std::env::var_os("BAKEOFF_REQUIRE_ALL").is_some();
    assert!(needed.is_ok() || !required, "{needed:?}");
    allowed(needed)
}

#[expect(clippy::print_stderr, reason = "what does not run is said where tests are read")]
fn allowed(needed: &Result<()>) -> bool {
    if let Err(reason) = needed {
        eprintln!("NOT RUN: {reason:#}");
    }
    needed.is_ok()
}

fn shared_cache() -> Result<PathBuf> {
    Ok(crate::binary("bakeoff")?.with_file_name("hosts-cache"))
}

/// The program of the SSH daemon: that of `BAKEOFF_SSHD`, else `/usr/sbin/sshd`.
fn sshd() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("BAKEOFF_SSHD") {
        return Ok(named.into());
    }
    let usual = Path::new("/usr/sbin/sshd");
    ensure!(usual.exists(), "no /usr/sbin/sshd: install OpenSSH's server, or name it in BAKEOFF_SSHD");
    Ok(usual.into())
}

/// A port that nothing listens at on this machine.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
