"""The secrets of a stack, each in a file for its owner alone."""

import os
import secrets
import shutil
from pathlib import Path

from tasks.adapters.certificates import new_pair

_BYTES = 24  # of chance in a password


class Keys:
    """A folder of secrets, made anew for each life of a stack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def renew(self) -> None:
        """Make all secrets that stand for themselves; those of before are worth nothing then."""
        self.forget()
        self.folder.mkdir(mode=0o700, parents=True)
        self.folder.chmod(0o700)  # a umask may have taken rights of the owner too
        for name in ("database", "mlflow", "mlflow-sessions", "prefect", "s3"):
            self.write(name, secrets.token_urlsafe(_BYTES))
        certificate, key = new_pair()
        self.write("dask.crt", certificate)
        self.write("dask.key", key)

    def forget(self) -> None:
        """Remove every secret."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name: str, text: str) -> str:
        """Return the file that a secret was written to."""
        path = self.folder / name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        return str(path)

    def read(self, name: str) -> str:
        """Return a secret."""
        return (self.folder / name).read_text()

    def file(self, name: str) -> str:
        """Return where a secret lies."""
        return str(self.folder / name)
