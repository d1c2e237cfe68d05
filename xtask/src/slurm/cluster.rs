//! The cluster: its configuration, its daemons, and the processes that belong to it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::accounting;

/// A node, and the GPUs that it has.
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) chip: &'static str,
    pub(super) gpus: u32,
}

/// The nodes.
pub(super) const NODES: [Node; 3] = [
    Node { name: "n1", chip: "gfx1100", gpus: 2 },
    Node { name: "n2", chip: "gfx942", gpus: 2 },
    Node { name: "n3", chip: "gfx1201", gpus: 2 },
];

/// Programs of Debian's packages, and the packages.
const PROGRAMS: [(&str, &str); 5] = [
    ("munged", "munge"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("sbatch", "slurm-client"),
    ("sinfo", "slurm-client"),
];
/// Slurm's plugin that looks for GPUs of AMD, below a folder of libraries.
const PLUGIN: &str = "x86_64-linux-gnu/slurm-wlm/gpu_rsmi.so";
/// Places of the library that the plugin loads.
const RSMI: [&str; 2] = ["/usr/lib/librocm_smi64.so.1", "/usr/lib/x86_64-linux-gnu/librocm_smi64.so.1"];
/// Variable that marks the processes of a cluster, and of a node.
const MARK: &str = "BELFRY_XTASK_SLURM";
/// Name of the cluster.
pub(super) const NAME: &str = "belfry";
/// Ports of the controller and, after it, of the nodes.
const PORT: u16 = 16817;
/// Time that daemons may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fails with the packages that are missing.
pub(super) fn requirements() -> Result<()> {
    let mut missing: BTreeSet<&str> =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    missing.extend(accounting::missing());
    if !Path::new("/usr/lib").join(PLUGIN).exists() {
        missing.insert("slurm-wlm-rsmi-plugin");
    }
    if rsmi().is_none() {
        missing.insert("librocm-smi64-1");
    }
    if !missing.is_empty() {
        let list = Vec::from_iter(missing).join(" ");
        bail!("this cluster is made of Debian's packages, and some are missing: apt install {list}");
    }
    ensure!(is_root()?, "slurmd starts jobs for other users: run this as root");
    Ok(())
}

fn is_root() -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0")))
}

fn rsmi() -> Option<&'static Path> {
    RSMI.iter().map(Path::new).find(|library| library.exists())
}

/// Returns the file of a program, which may be one for administrators.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

/// Daemons of a cluster, which end with it.
pub(super) struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<(String, Child)>,
}

impl Cluster {
    /// Starts the daemons, and waits until all nodes are idle.
    pub(super) fn start(belfry: &Path, epilog: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("belfry-slurm-").tempdir()?;
        let mut cluster = Self { folder, daemons: Vec::new() };
        cluster.configure(epilog)?;
        let munge = cluster.folder().join("munge");
        let mut munged = cluster.daemon("munged")?;
        munged.args(["--foreground", "--force"]);
        for (option, file) in [
            ("--key-file", "key"),
            ("--socket", "socket"),
            ("--pid-file", "pid"),
            ("--log-file", "log"),
            ("--seed-file", "seed"),
        ] {
            munged.arg(format!("{option}={}", munge.join(file).display()));
        }
        cluster.keep("munged", munged)?;
        cluster.wait("munged's socket", |_| Ok(munge.join("socket").exists()))?;
        accounting::start(&mut cluster)?;
        let mut controller = cluster.daemon("slurmctld")?;
        controller.arg("-D");
        cluster.keep("slurmctld", controller)?;
        for node in &NODES {
            let slurmd = find("slurmd").context("slurmd")?;
            let mut command = cluster.environment(Command::new(belfry));
            command.args(["exec", "--quiet", "--gpus", &node.gpus.to_string(), "--chip", node.chip, "--"]);
            command.arg(slurmd).args(["-D", "-N", node.name]);
            // The plugin asks for the name that Debian has in the package for developers alone.
            command.env("LD_LIBRARY_PATH", cluster.folder().join("lib")).env(MARK, cluster.mark(node.name));
            cluster.keep(node.name, command)?;
        }
        cluster.wait("idle nodes", |cluster| {
            let states = cluster.output("sinfo", &["-h", "-N", "-o", "%T"]).unwrap_or_default();
            Ok(states.lines().filter(|state| *state == "idle").count() == NODES.len())
        })?;
        Ok(cluster)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the file in which the epilog notes the processes that it ends.
    pub(super) fn epilog_log(&self) -> PathBuf {
        self.folder().join("epilog.log")
    }

    fn configure(&self, epilog: &Path) -> Result<()> {
        let folder = self.folder();
        // Slurm gives an epilog few variables; the one for the log is not among them.
        let script = format!(
            "#!/bin/sh\nBELFRY_EPILOG_LOG='{}' exec '{}'\n",
            self.epilog_log().display(),
            epilog.display()
        );
        fs::write(folder.join("epilog"), script)?;
        fs::set_permissions(folder.join("epilog"), fs::Permissions::from_mode(0o755))?;
        for name in ["state", "lib", "munge"].into_iter().chain(NODES.iter().map(|node| node.name)) {
            fs::create_dir(folder.join(name))?;
        }
        let mut key = [0; 128];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut key)?;
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o400).open(folder.join("munge/key"))?;
        std::io::Write::write_all(&mut file, &key)?;
        symlink(rsmi().context("librocm_smi64.so.1")?, folder.join("lib/librocm_smi64.so"))?;
        fs::write(folder.join("gres.conf"), "AutoDetect=rsmi\n")?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let host = host.trim().split('.').next().unwrap_or("localhost");
        let at = folder.display();
        let mut text = format!(
            "ClusterName={NAME}\n\
             SlurmctldHost={host}(127.0.0.1)\n\
             SlurmctldPort={PORT}\n\
             AuthType=auth/munge\n\
             # A job of a node that died may start again after this time.\n\
             AuthInfo=socket={at}/munge/socket,cred_expire=10\n\
             SlurmUser=root\n\
             StateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/%n\n\
             SlurmctldPidFile={at}/slurmctld.pid\n\
             SlurmdPidFile={at}/%n.pid\n\
             ProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core_Memory\n\
             DefMemPerCPU=500\n\
             GresTypes=gpu\n\
             JobCompType=jobcomp/filetxt\n\
             JobCompLoc={at}/jobs\n\
             SlurmdTimeout=15\n\
             KillWait=5\n\
             Epilog={at}/epilog\n\
             MessageTimeout=10\n\
             SlurmdParameters=config_overrides\n\
             PartitionName=gpu Nodes=ALL Default=YES State=UP\n"
        );
        text += &accounting::configuration(folder);
        for (port, node) in (PORT + 1..).zip(&NODES) {
            text += &format!(
                "NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=4000 Gres=gpu:{}\n",
                node.name, node.gpus
            );
        }
        Ok(fs::write(folder.join("slurm.conf"), text)?)
    }

    /// Gives a command the cluster's configuration.
    pub(super) fn environment(&self, mut command: Command) -> Command {
        command
            .env("SLURM_CONF", self.folder().join("slurm.conf"))
            .env(MARK, self.mark(""))
            .stdin(Stdio::null());
        command
    }

    fn mark(&self, node: &str) -> String {
        format!("{}/{node}", self.folder().display())
    }

    /// Returns a command of Slurm's.
    pub(super) fn command(&self, program: &str) -> Command {
        self.environment(Command::new(program))
    }

    pub(super) fn daemon(&self, program: &str) -> Result<Command> {
        Ok(self.environment(Command::new(find(program).with_context(|| program.to_owned())?)))
    }

    /// Starts a daemon with a log of its own.
    pub(super) fn keep(&mut self, name: &str, mut command: Command) -> Result<()> {
        let log = fs::File::create(self.log(name))?;
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        self.daemons.push((name.to_owned(), child));
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.log"))
    }

    /// Waits until something is there. A daemon that ends before fails it, with its last words.
    pub(super) fn wait(&mut self, what: &str, is_there: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        while !is_there(self)? {
            for (name, child) in &mut self.daemons {
                if let Some(status) = child.try_wait()? {
                    let log = fs::read_to_string(self.folder.path().join(format!("{name}.log")))?;
                    bail!("{name} has ended ({status}):\n{}", tail(&log));
                }
            }
            if started.elapsed() > PATIENCE {
                let logs = self.daemons.iter().map(|(name, _)| {
                    format!("{name}:\n{}\n", tail(&fs::read_to_string(self.log(name)).unwrap_or_default()))
                });
                bail!("no {what} after {} s\n{}", PATIENCE.as_secs(), String::from_iter(logs));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Returns the output of a command of Slurm's that has ended well.
    pub(super) fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.command(program).args(arguments).output().with_context(|| program.to_owned())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {}: {}\n{errors}", arguments.join(" "), output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Returns true if a node has a job: processes beside its daemon.
    pub(super) fn is_busy(&self, name: &str) -> Result<bool> {
        Ok(processes(&self.mark(name))?.len() > 1)
    }

    /// Kills a node as a loss of power would: its daemon and its jobs at once. Returns the number of processes.
    pub(super) fn kill(&mut self, name: &str) -> Result<usize> {
        let at = self.daemons.iter().position(|(daemon, _)| daemon == name).context("no such node")?;
        let (_, mut daemon) = self.daemons.remove(at);
        let killed = end(&self.mark(name), "KILL")?;
        daemon.wait()?;
        Ok(killed)
    }

    /// Ends the daemons, and fails if a process or a job is left.
    pub(super) fn stop(mut self) -> Result<()> {
        let jobs = self.output("squeue", &["-h"])?;
        ensure!(jobs.is_empty(), "jobs are left:\n{jobs}");
        // Each daemon is a process; slurmctld has one more, in which it runs scripts.
        let expected = self.daemons.len() + 1;
        let mark = self.folder().display().to_string();
        self.wait("end of the jobs' processes", |_| Ok(processes(&mark)?.len() <= expected))?;
        self.end_daemons();
        let left = processes(&mark)?;
        ensure!(left.is_empty(), "processes are left: {left:?}");
        say!("cluster: ended; no job and no process is left");
        Ok(())
    }

    fn end_daemons(&mut self) {
        let mark = self.folder().display().to_string();
        let _ = end(&mark, "TERM");
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10)
            && self.daemons.iter_mut().any(|(_, daemon)| matches!(daemon.try_wait(), Ok(None)))
        {
            thread::sleep(Duration::from_millis(50));
        }
        let _ = end(&mark, "KILL");
        for (_, daemon) in &mut self.daemons {
            let _ = daemon.wait();
        }
        self.daemons.clear();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end_daemons();
    }
}

/// Sends a signal to the processes that have a mark. Returns the number of them.
fn end(mark: &str, signal: &str) -> Result<usize> {
    let mut all = BTreeSet::new();
    // A process may start another while it is looked for.
    loop {
        let found: Vec<u32> = processes(mark)?.into_iter().filter(|process| all.insert(*process)).collect();
        if found.is_empty() {
            return Ok(all.len());
        }
        let signal = format!("-{signal}");
        Command::new("kill")
            .arg(signal)
            .args(found.iter().map(u32::to_string))
            .stderr(Stdio::null())
            .status()?;
    }
}

/// Returns the processes whose mark begins with this one, with their descendants, which may have another environment.
fn processes(mark: &str) -> Result<BTreeSet<u32>> {
    let wanted = format!("{MARK}={mark}");
    let mut parents = Vec::new();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that has ended in the meantime has no files.
        let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
        if read("environ").split(|&byte| byte == 0).any(|variable| variable.starts_with(wanted.as_bytes())) {
            found.insert(process);
        }
        // The name, in parentheses, may have blanks; then come the state and the parent.
        let status = String::from_utf8_lossy(&read("stat")).into_owned();
        let parent =
            status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (process, parent)));
    }
    let mut before = 0;
    while found.len() > before {
        before = found.len();
        let children: Vec<u32> = parents
            .iter()
            .filter(|(_, parent)| found.contains(parent))
            .map(|(process, _)| *process)
            .collect();
        found.extend(children);
    }
    Ok(found)
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
