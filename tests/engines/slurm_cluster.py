"""A real Slurm of a controller and two nodes on this machine, without munge and systemd."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from support import LIMIT_S, eventually

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue", "sinfo")

SETTINGS = """
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=6
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
MailProg=/bin/true
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""


def why_not():
    """The reason why there can be no cluster here; None if there can be one."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if missing:
        return f"Slurm is not installed: no {missing[0]}; scripts/test --slurm installs it"
    return "Slurm without munge needs root" if os.getuid() != 0 else None


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """A cluster whose processes, jobs included, end with stop()."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "state").mkdir()
        controller, first, second = free_ports(3)
        self.settings = self.folder / "slurm.conf"
        self.settings.write_text(
            SETTINGS.format(
                host=socket.gethostname(), folder=self.folder,
                controller=controller, first=first, second=second,
            )
        )  # fmt: skip
        self.environment = {
            **{name: value for name, value in os.environ.items() if "SLURM" not in name},
            "PATH": search_path(),
            "SLURM_CONF": str(self.settings),
        }
        self.processes = {}

    def start(self):
        self.run_daemon("controller", "slurmctld", "-D", "-c", "-f", str(self.settings))
        self.start_node("n1")
        self.start_node("n2")
        return eventually(lambda: self.idle_nodes() == 2)

    def run_daemon(self, name, *words):
        with open(self.folder / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start_node(self, name):
        (self.folder / f"spool-{name}").mkdir(exist_ok=True)
        self.run_daemon(name, "slurmd", "-D", "-N", name, "-f", str(self.settings))

    def kill_node(self, name, jobs):
        """Kills a node with everything that runs there: its daemon, and the processes `jobs`."""
        self.processes[name].kill()
        self.processes[name].wait()
        for pid in jobs:
            os.kill(pid, signal.SIGKILL)

    def command(self, *words, **more):
        """Runs a command of Slurm, and returns what it prints."""
        done = subprocess.run(
            words, env={**self.environment, **more}, capture_output=True, text=True,
            timeout=LIMIT_S,
        )  # fmt: skip
        return (done.stdout + done.stderr).strip()

    def idle_nodes(self):
        return self.command("sinfo", "-h", "-N", "-o", "%T").split().count("idle")

    def node_state(self, name):
        return self.command("sinfo", "-h", "-n", name, "-o", "%T")

    def jobs(self):
        """The state of each element of arrays that has not ended, by its name, such as 3_1."""
        lines = self.command("squeue", "-h", "-r", "-o", "%i %T").splitlines()
        return dict(line.split() for line in lines if len(line.split()) == 2)

    def log(self):
        return "".join(file.read_text()[-3000:] for file in sorted(self.folder.glob("*.log")))

    def cancel_all(self):
        self.command("scancel", "-u", "root", "--full", "--signal=KILL")
        self.command("scancel", "-u", "root")
        return eventually(lambda: not self.jobs())

    def stop(self):
        self.cancel_all()
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
