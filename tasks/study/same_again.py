"""The command that makes a run's numbers again."""

import shlex
import sys
from pathlib import Path

from tasks.study.opening import Study


def command_again(study: Study) -> str:
    """Return the command, which means the same in whichever folder it is given."""
    own = Path(sys.executable).with_name("fkd")
    words = [str(own) if own.is_file() else "fkd", "run", str(study.folder / "config.yaml")]
    return shlex.join(["env", f"FKD_HOME={study.settings.home}", *words])
