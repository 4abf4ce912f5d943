//! A real Slurm of three nodes on this machine, with its own configuration, ports and folders.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Nodes `n1` to `n3` of two processors each. Dropping it stops the daemons.
#[derive(Debug)]
pub struct SlurmLab {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl SlurmLab {
    /// Whether this machine has Slurm's programs and this user may start its daemons; says that a test does not run where not.
    #[expect(clippy::print_stderr, reason = "what does not run is said where tests are read")]
    pub fn is_possible() -> bool {
        let root = rustix::process::geteuid().is_root();
        let programs = ["slurmctld", "slurmd", "munged"].iter().all(|name| program(name).is_some());
        if !(root && programs) {
            eprintln!(
                "NOT RUN: Slurm's daemons (slurmctld, slurmd, munge) are not installed, or this user is not root"
            );
        }
        root && programs
    }

    /// Starts munge, a controller and three nodes, and waits until the nodes are idle.
    pub fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        let host = Command::new("hostname").arg("-s").output()?;
        let host = String::from_utf8_lossy(&host.stdout).trim().to_owned();
        let port = crate::free_port()?;
        // Ports beside each other, away from those that the system hands out.
        let first = 20_000 + port % 10_000;
        let path = |name: &str| at(name).display().to_string();
        fs::create_dir(at("ctld"))?;
        fs::write(
            at("slurm.conf"),
            format!(
                "ClusterName=lab\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
                 StateSaveLocation={}\nSlurmdSpoolDir={}\nSlurmctldPidFile={}\nSlurmdPidFile={}\nSlurmctldPort={first}\n\
                 ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nReturnToService=2\n\
                 NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{}-{}] CPUs=2 State=UNKNOWN\n\
                 PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
                path("ctld"),
                path("%n"),
                path("ctld.pid"),
                path("%n.pid"),
                first + 1,
                first + 3,
            ),
        )?;
        munge()?;
        let mut lab = Self { folder, daemons: Vec::new() };
        lab.daemon("slurmctld", &["-D"])?;
        for node in NODES {
            fs::create_dir(lab.folder.path().join(node))?;
            lab.daemon("slurmd", &["-D", "-N", node])?;
        }
        crate::wait_until(Duration::from_secs(30), || {
            let state = lab.slurm("sinfo").args(["-h", "-o", "%D %t"]).output()?;
            Ok(String::from_utf8_lossy(&state.stdout).trim() == "3 idle")
        })
        .context("the nodes of Slurm are not idle")?;
        Ok(lab)
    }

    /// One of Slurm's commands.
    pub fn slurm(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.configuration());
        command
    }

    /// `command` inside an allocation of all nodes.
    pub fn allocated(&self, command: &Command) -> Command {
        let mut inside = self.slurm("salloc");
        inside.args(["-N3", "--quiet"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    fn daemon(&mut self, name: &str, arguments: &[&str]) -> Result<()> {
        let path = program(name).with_context(|| format!("no {name}"))?;
        let log = fs::File::create(self.folder.path().join(format!("{name}-{}.log", self.daemons.len())))?;
        let child = Command::new(path)
            .args(arguments)
            .env("SLURM_CONF", self.configuration())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.daemons.push(child);
        Ok(())
    }
}

impl Drop for SlurmLab {
    fn drop(&mut self) {
        // The controller last: its nodes say goodbye to it.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Starts the machine's munge, unless it runs.
fn munge() -> Result<()> {
    if Path::new("/run/munge/munge.socket.2").exists()
        && Command::new("munge").arg("-n").stdout(Stdio::null()).status()?.success()
    {
        return Ok(());
    }
    fs::create_dir_all("/run/munge")?;
    let owned = Command::new("chown").args(["munge:munge", "/run/munge"]).status()?;
    ensure!(owned.success(), "/run/munge cannot be given to munge");
    let path = program("munged").context("no munged")?;
    // It outlives the test, and must not keep its pipes, nor what else the test was started with: the lock of `flock`, above all.
    let script =
        "for fd in 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done; exec runuser -u munge -- \"$0\" --force";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(path);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(started.success(), "munged did not start");
    Ok(())
}

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}
