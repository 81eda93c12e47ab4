"""The services of deploy/compose/compose.yaml, started as processes of this machine.

Commands, environments, secrets, volumes and health checks are those of the file. Paths inside a
container become folders, and the ports of services become free ports of loopback. A key that this
module does not know is an error, so that no part of the file remains untested unnoticed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import yaml
from deadlines import patient
from manifests import DEPLOY
from object_stores import free_port
from tracking_server import postgres_programs, unprivileged

LOOPBACK = "127.0.0.1"
IMAGE = DEPLOY / "image"
VENV = Path(sys.executable).parent.parent
PORTS = {"database": 5432, "store": 8080, "mlflow": 5000, "prefect": 4200, "scheduler": 8786}
KNOWN = {
    "file": {"name", "networks", "secrets", "services", "volumes"},
    "service": {
        *("command", "depends_on", "deploy", "entrypoint", "environment", "healthcheck", "image"),
        *("networks", "ports", "restart", "secrets", "stop_signal", "tmpfs", "volumes"),
        # Only containers need these.
        *("build", "cap_drop", "profiles", "read_only", "security_opt"),
    },
    "healthcheck": {"test", "interval", "timeout", "start_period", "retries"},
    "deploy": {"replicas"},
}
STOP_SECONDS = 10  # from the stop signal to SIGKILL, the default of compose


def check_keys(file):
    """Fail if the file has a key that is not translated."""
    _check("file", {key for key in file if not key.startswith("x-")})
    for service in file["services"].values():
        _check("service", service)
        _check("healthcheck", service.get("healthcheck", {}))
        _check("deploy", service.get("deploy", {}))


def _check(place, keys):
    unknown = set(keys) - KNOWN[place]
    assert not unknown, f"compose_processes.py must translate these keys of a {place}: {unknown}"


def _image_lines():
    """Return the environment and the entry point of the image."""
    text = (IMAGE / "Containerfile").read_text().replace("\\\n", " ")
    (variables,) = re.findall(r"^ENV (.*)$", text, re.M)
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.M)
    return dict(word.split("=", 1) for word in variables.split()), json.loads(entry)


class Service:
    """One service with its folders, and with the ports and networks of all services."""

    def __init__(self, name, services, folder, ports):
        self.name, self.told, self._services, self._ports = name, services[name], services, ports
        self.folder = folder / "services" / name
        self.secrets = self.folder / "run" / "secrets"
        self.read_only = self.folder / "read-only"  # a container cannot write here
        self.paths = {
            "/run/secrets": self.secrets,
            "/opt/fkd/deploy": DEPLOY,
            "/opt/fkd": VENV,
            "/usr/local/bin": IMAGE,
            "/fkd": self.read_only,
        }
        self.paths |= {path: self.folder / path.strip("/") for path in self.told.get("tmpfs", [])}
        for volume in self.told.get("volumes", []):
            source, inside, *_ = volume.split(":")
            relative = source.startswith(".")
            self.paths[inside] = (
                DEPLOY / "compose" / source if relative else folder / "volumes" / source
            )
        for path in self.paths.values():
            if not path.exists():
                path.mkdir(parents=True)
        for secret in self.told.get("secrets", []):
            text = (folder / "secrets" / secret).read_text()
            if self.reaches("database"):
                text = text.replace("@database/", f"@{LOOPBACK}:{ports['database']}/")
            (self.secrets / secret).write_text(self._with_paths(text))

    def reaches(self, other):
        """Return whether two services share a network."""
        networks = (set(self._services[name]["networks"]) for name in (self.name, other))
        return bool(set.intersection(*networks))

    @property
    def environment(self):
        """Return the environment of the image and of the service, nothing of this shell."""
        image = self.told["image"]
        if "fkd" in image:
            base, _ = _image_lines()
        elif "rclone" in image:
            base = {"HOME": "/root", "PATH": "/opt/fkd/bin:/usr/bin:/bin"}
        else:
            base = {"PATH": f"{postgres_programs()}:/usr/bin:/bin", "PGPORT": str(self.port)}
        # A setting of the machine, which decides the last digits.
        kernels = {k: v for k, v in os.environ.items() if k == "OPENBLAS_CORETYPE"}
        told = {**base, **kernels, "TMPDIR": "/tmp", **self.told.get("environment", {})}
        return {name: self.translated(str(value)) for name, value in told.items()}

    @property
    def port(self):
        """Return the port of loopback at which the service listens."""
        return self._ports[self.name]

    def words(self, command=None):
        """Return the command line, with another command if one is given."""
        entry = self.told.get("entrypoint") or _image_lines()[1]
        words = [*entry, *(self.told["command"] if command is None else command)]
        words = [self.translated(word).replace("$$", "$") for word in words]
        for i, word in enumerate(words[:-1]):
            if word == "--port":
                assert int(words[i + 1]) == PORTS[self.name], f"{self.name} has another port"
                words[i + 1] = str(self.port)
        # Without --host, Dask listens on all interfaces, as it must inside a container.
        return [*words, "--host", LOOPBACK] if "dask" in words else words

    def translated(self, text):
        """Return a text of the file with the paths and addresses of this machine."""
        text = self._with_paths(text.replace("0.0.0.0", LOOPBACK))
        return re.sub(r"(\b[a-z]+|127\.0\.0\.1|(?<!\S)):(\d{4})\b", self._address, text)

    def _address(self, match):
        host, port = match[1], int(match[2])
        service = self.name if host in ("", LOOPBACK) else host
        assert PORTS[service] == port, f"{match[0]} in {self.name} is no port of a service"
        assert self.reaches(service), f"{self.name} and {service} share no network"
        return f"{LOOPBACK}:{self._ports[service]}"

    def _with_paths(self, text):
        found = "|".join(sorted(map(re.escape, self.paths), key=len, reverse=True))
        return re.sub(
            # Not in s3://fkd, which is no path.
            rf"(?<![\w.-])(?<!:/)({found})(?![\w.-])",
            lambda match: str(self.paths[match[1]]),
            text,
        )

    def healthy(self):
        """Return whether the health check of the file succeeds."""
        kind, *words = self.told["healthcheck"]["test"]
        assert kind == "CMD"
        words = [self.translated(word) for word in words]
        if words[0] == str(IMAGE / "healthy"):
            words.insert(0, sys.executable)  # its first line names the Python of the image
        asked = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True)
        return asked.returncode == 0


class Compose:
    """All services of the file in one folder, each replica a process group of its own."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        make = ["bash", DEPLOY / "compose" / "make-secrets", folder / "secrets"]
        subprocess.run(make, check=True, capture_output=True)
        # Outside of the folder, which the user of PostgreSQL may not enter.
        self.database = Path(tempfile.mkdtemp(prefix="fkd-compose-"))
        file = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
        check_keys(file)
        services, ports = file["services"], {name: free_port() for name in PORTS}
        self.services = {name: Service(name, services, folder, ports) for name in services}
        self.processes: dict[str, subprocess.Popen] = {}

    def up(self):
        """Start every service without a profile, each after those that it depends on."""
        for name, service in self.services.items():
            if "profiles" not in service.told:
                self.start(name)

    def start(self, name):
        """Start the replicas of a service that do not run, and first its dependencies."""
        told = self.services[name].told
        waited = told.get("depends_on", {})
        for other in waited:
            self.start(other)
            if isinstance(waited, dict):
                assert waited[other] == {"condition": "service_healthy"}
                self.wait_healthy(other)
        for i in range(told.get("deploy", {}).get("replicas", 1)):
            key = f"{name}-{i + 1}"
            if key not in self.processes or self.processes[key].poll() is not None:
                words = self._postgres() if "postgres" in told["image"] else None
                self.processes[key] = self.run(name, words=words, log=key)

    def run(self, name, *command, words=None, log=None):
        """Start a process of a service, as `compose run` does, with another command."""
        service = self.services[name]
        path = self.folder / f"{log or f'run-{time.monotonic_ns()}'}.log"
        with path.open("ab") as out:
            process = subprocess.Popen(
                words or service.words(command or None),
                env=service.environment,
                cwd=self.database if words else service.paths["/fkd"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process.log = path
        return process

    def variables(self, name):
        """Return the environment of a process of a service, its secrets included."""
        service = self.services[name]
        words = service.words(["env", "-0"])
        found = subprocess.run(words, env=service.environment, capture_output=True, check=True)
        return dict(pair.split("=", 1) for pair in found.stdout.decode().split("\0") if pair)

    def wait_healthy(self, name):
        """Return once a service is healthy."""
        deadline = time.monotonic() + patient(180)
        while not self.services[name].healthy():
            for key, process in self.processes.items():
                assert process.poll() is None, f"{key} ended: {process.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"{name} is not healthy"
            time.sleep(0.2)

    def kill(self, key):
        """Kill a replica with all its processes, as the end of its container does."""
        process = self.processes[key]
        inside = psutil.Process(process.pid).children(recursive=True)
        for one in (process, *inside):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()
        psutil.wait_procs(inside, patient(30))

    def tree(self):
        """Return all processes of the services."""
        living = [p for p in self.processes.values() if p.poll() is None]
        parents = [psutil.Process(process.pid) for process in living]
        return [p for parent in parents for p in (parent, *parent.children(recursive=True))]

    def down(self):
        """Stop all services. Return those that did not end after their stop signal."""
        slow = []
        for key, process in reversed(self.processes.items()):
            name = key.rpartition("-")[0]
            image = "SIGINT" if name == "database" else "SIGTERM"
            process.send_signal(signal.Signals[self.services[name].told.get("stop_signal", image)])
            try:
                process.wait(patient(STOP_SECONDS))
            except subprocess.TimeoutExpired:
                slow.append(key)
            with suppress(psutil.NoSuchProcess):
                self.kill(key)
        shutil.rmtree(self.database)
        return slow

    def _postgres(self):
        """Return the command of PostgreSQL, after its image's work at the first start."""
        service, data = self.services["database"], self.database / "data"
        given, options, prefix = service.environment, ["-D", str(data)], unprivileged(self.database)
        run = {"check": True, "cwd": self.database, "env": given, "capture_output": True}
        serve = [*prefix, "postgres", *options, "-k", str(self.database)]
        if not data.exists():
            password = self.database / "password"
            password.write_bytes(Path(given["POSTGRES_PASSWORD_FILE"]).read_bytes())
            user = ["-U", given["POSTGRES_USER"]]
            make = ["initdb", *options, *user, f"--pwfile={password}", "--locale=C.UTF-8"]
            make += ["--auth-host=scram-sha-256", "--auth-local=trust"]
            subprocess.run([*prefix, *make], **run)
            password.unlink()
            control = [*prefix, "pg_ctl", *options, "-w"]
            alone = f"-k {self.database} -c listen_addresses="
            subprocess.run([*control, "-l", "init.log", "-o", alone, "start"], **run)
            ask = ["psql", "-v", "ON_ERROR_STOP=1", "-h", str(self.database), *user, "-d"]
            create = f"CREATE DATABASE {given['POSTGRES_DB']}"
            subprocess.run([*ask, "postgres", "-c", create], **run)
            for inside, script in service.paths.items():
                if inside.startswith("/docker-entrypoint-initdb.d/"):
                    subprocess.run([*ask, given["POSTGRES_DB"], "-f", str(script)], **run)
            subprocess.run([*control, "stop"], **run)
        return [*serve, "-c", f"listen_addresses={LOOPBACK}", "-p", str(service.port)]
