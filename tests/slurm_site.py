"""One SLURM of one node on loopback, with processes, keys and folders of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from deadlines import patient

from tasks.servers.shared_server import free_port

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue")

# Two processors and 8 GB, whatever the machine has: `config_overrides` lets SLURM believe it.
CONFIG = """
ClusterName=fkd
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={controller}
SlurmdPort={node}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1
SlurmdParameters=config_overrides
EnforcePartLimits=ALL
ReturnToService=2
KillWait=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=sweep Nodes={host} MaxTime=INFINITE State=UP
PartitionName=short Nodes={host} MaxTime=00:10:00 State=UP
PartitionName=closed Nodes={host} MaxTime=INFINITE State=DOWN
"""


def missing_commands():
    """Which of SLURM's programs this machine lacks."""
    return [name for name in COMMANDS if shutil.which(name) is None]


class Site:
    """A running SLURM, asked by its own commands."""

    def __init__(self, folder: Path) -> None:
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def ask(self, *words: str) -> str:
        """What a command of SLURM answers."""
        environment = {**os.environ, **self.environment}
        found = subprocess.run(words, capture_output=True, text=True, env=environment)
        return found.stdout.strip()

    def jobs(self, state: str = "all") -> list[str]:
        """The numbers of the jobs in the queue."""
        return self.ask("squeue", "--noheader", "--format=%i", f"--states={state}").split()

    def wait(self, happened) -> None:
        """Return once something has happened."""
        deadline = time.monotonic() + patient(120)
        while not happened():
            assert time.monotonic() < deadline, self.ask("sinfo") + self.ask("squeue")
            time.sleep(0.1)


@contextmanager
def slurm_site(folder: Path):
    """A SLURM in a folder; nothing of it is left afterwards."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    ports = {"controller": free_port(), "node": free_port()}
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, host=host, **ports))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed")
    site, started = Site(folder), []
    munge = [f"--{option}={folder}/munge.{name}" for option, name in files]
    try:
        # `--force` takes folders that others may enter, as those of tests are.
        _start(started, folder, "munged", "--foreground", "--force", *munge)
        site.wait((folder / "munge.socket").exists)
        _start(started, folder, "slurmctld", "-D", "-c")
        site.wait(lambda: site.ask("sinfo", "--noheader"))
        _start(started, folder, "slurmd", "-D", "-c")
        site.wait(lambda: "idle" in site.ask("sinfo", "--noheader", "--format=%t"))
        yield site
    finally:
        for job in site.jobs():
            site.ask("scancel", job)
        if started:
            site.wait(lambda: not site.jobs("running,completing"))
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            process.wait(patient(60))


def _start(started, folder, name, *words):
    """Start one program that stays in the foreground."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [name, *words],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
        )
    started.append(process)
