//! Two hosts on this machine: a real `sshd` on two addresses of the loopback, with its own keys and configuration.

use crate::{Desk, DriverProcess};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Hosts `lab1` and `lab2`, and `lab3` whose address nothing listens at. Dropping it stops the daemon.
#[derive(Debug)]
pub struct Lab {
    folder: tempfile::TempDir,
    daemon: Child,
    /// The port that the daemon listens at.
    pub port: u16,
}

impl Lab {
    /// Whether there is a daemon; says that a test does not run where there is none.
    ///
    /// # Panics
    /// There is none, and no test may be left out.
    #[expect(clippy::print_stderr, reason = "what does not run is said where tests are read")]
    pub fn is_possible() -> bool {
        let found = sshd();
        let required = std::env::var_os("BAKEOFF_REQUIRE_ALL").is_some();
        assert!(found.is_ok() || !required, "{found:?}");
        if let Err(reason) = &found {
            eprintln!("NOT RUN: {reason}");
        }
        found.is_ok()
    }

    /// Starts the daemon. Its hosts share a cache that later tests find filled, as hosts do after the first run.
    pub fn start() -> Result<Self> {
        Self::with_cache(&crate::binary("bakeoff")?.with_file_name("hosts-cache"))
    }

    /// The same with another folder for the hosts' cache.
    pub fn with_cache(cache: &Path) -> Result<Self> {
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
                "ListenAddress 127.0.0.1:{port}\nListenAddress 127.0.0.2:{port}\nHostKey {}\nAuthorizedKeysFile {}\n\
                 PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 SetEnv BAKEOFF_CACHE={}\n",
                path("host"),
                path("authorized"),
                cache.display()
            ),
        )?;
        let public = fs::read_to_string(at("host.pub"))?;
        let key: Vec<&str> = public.split_whitespace().take(2).collect();
        fs::write(at("known"), format!("[127.0.0.1]:{port},[127.0.0.2]:{port} {}\n", key.join(" ")))?;
        fs::write(
            at("config"),
            format!(
                "Host lab1\n  HostName 127.0.0.1\nHost lab2\n  HostName 127.0.0.2\nHost lab3\n  HostName 127.0.0.3\nHost *\n  \
                 Port {port}\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n",
                path("user"),
                path("known")
            ),
        )?;
        let ssh = at("ssh");
        fs::write(&ssh, format!("#!/bin/sh\nexec ssh -F {} \"$@\"\n", path("config")))?;
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
        // The folder that a daemon of root wants for its unprivileged half.
        let _ = fs::create_dir_all("/run/sshd");
        let daemon = Command::new(sshd()?)
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stdin(Stdio::null())
            .stderr(fs::File::create(at("sshd.log"))?)
            .spawn()
            .context("sshd")?;
        let lab = Self { folder, daemon, port };
        crate::wait_until(Duration::from_secs(10), || Ok(TcpStream::connect(("127.0.0.2", port)).is_ok()))
            .with_context(|| fs::read_to_string(lab.at("sshd.log")).unwrap_or_default())?;
        Ok(lab)
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

    /// The same, started.
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
        // It may have ended already.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The daemon's program.
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
