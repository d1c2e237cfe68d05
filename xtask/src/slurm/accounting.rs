//! Slurm's accounting: a database and `slurmdbd` in the cluster's folder, which keep the GPUs of each job.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::cluster::{Cluster, NAME, find};

/// Port of `slurmdbd`.
pub(super) const PORT: u16 = 16816;

/// Lines of `slurm.conf`. Clients of `slurmdbd` do not take munge's socket from `AuthInfo`: they know it as a password (Slurm 22.05).
pub(super) fn configuration(folder: &Path) -> String {
    format!(
        "AccountingStorageType=accounting_storage/slurmdbd\n\
         AccountingStorageHost=127.0.0.1\n\
         AccountingStoragePort={PORT}\n\
         AccountingStoragePass={}/munge/socket\n\
         AccountingStorageTRES=gres/gpu\n",
        folder.display()
    )
}

/// Starts the database and `slurmdbd`, and has them know the cluster.
pub(super) fn start(cluster: &mut Cluster) -> Result<()> {
    let folder = cluster.folder().to_owned();
    let (data, socket) = (folder.join("database"), folder.join("database.socket"));
    let install = Command::new("mariadb-install-db")
        .args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"])
        .arg(format!("--datadir={}", data.display()))
        .output()
        .context("starting mariadb-install-db")?;
    ensure!(
        install.status.success(),
        "mariadb-install-db: {}",
        String::from_utf8_lossy(&[install.stdout, install.stderr].concat())
    );
    let mut database = cluster.daemon("mariadbd")?;
    database.args(["--no-defaults", "--user=root", "--skip-networking"]);
    for (option, value) in
        [("datadir", &data), ("socket", &socket), ("pid-file", &folder.join("database.pid"))]
    {
        database.arg(format!("--{option}={}", value.display()));
    }
    cluster.keep("mariadbd", database)?;
    cluster.wait("socket of the database", |_| Ok(socket.exists()))?;
    let at = folder.display();
    let text = format!(
        "AuthType=auth/munge\n\
         AuthInfo=socket={at}/munge/socket\n\
         DbdHost=localhost\n\
         DbdAddr=127.0.0.1\n\
         DbdPort={PORT}\n\
         SlurmUser=root\n\
         PidFile={at}/slurmdbd.pid\n\
         StorageType=accounting_storage/mysql\n\
         StorageUser=root\n\
         StorageLoc=belfry\n"
    );
    let path = folder.join("slurmdbd.conf");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    let mut daemon = cluster.daemon("slurmdbd")?;
    daemon.arg("-D").env("MYSQL_UNIX_PORT", &socket);
    cluster.keep("slurmdbd", daemon)?;
    cluster.wait("answer of slurmdbd", |cluster| {
        Ok(cluster.output("sacctmgr", &["--immediate", "add", "cluster", NAME]).is_ok())
    })
}

/// Says how many jobs and GPUs the accounting knows; fails if a job has another number of GPUs than it asked for.
pub(super) fn check(cluster: &mut Cluster) -> Result<()> {
    // The controller sends its records in its own time.
    cluster.wait("records of all jobs", |cluster| {
        let open = cluster.output("sacct", &["-aXnP", "--state=RUNNING,PENDING", "-o", "JobID"])?;
        Ok(open.is_empty())
    })?;
    let records =
        cluster.output("sacct", &["-aXnP", "-D", "-o", "JobID,State,ElapsedRaw,ReqTRES,AllocTRES"])?;
    let mut jobs = 0;
    let mut seconds = 0;
    for line in records.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [job, state, elapsed, asked, had] = fields[..] else { bail!("sacct says {line:?}") };
        let gpus = |resources: &str| {
            let list = resources.split(',').find_map(|one| one.strip_prefix("gres/gpu="))?;
            list.parse::<u64>().ok()
        };
        let (Some(asked), Some(had)) = (gpus(asked), gpus(had)) else {
            // A job that waited when its node died had none.
            ensure!(elapsed == "0", "job {job} ({state}) has no GPU in the accounting: {line}");
            continue;
        };
        ensure!(asked == had, "job {job} ({state}) asked for {asked} GPUs and had {had}");
        jobs += 1;
        seconds += had * elapsed.parse::<u64>().with_context(|| format!("time of job {job}"))?;
    }
    ensure!(jobs > 0, "the accounting knows no job with a GPU");
    say!("accounting: {jobs} jobs had the GPUs that they asked for, {seconds} GPU seconds in all");
    Ok(())
}

/// Programs of Debian's packages, and the packages.
pub(super) const PROGRAMS: [(&str, &str); 5] = [
    ("slurmdbd", "slurmdbd"),
    ("sacct", "slurm-client"),
    ("mariadbd", "mariadb-server-core"),
    ("mariadb-install-db", "mariadb-server-core"),
    // The one before asks it.
    ("my_print_defaults", "mariadb-client-core"),
];

/// Returns the packages that are missing.
pub(super) fn missing() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package)
}
