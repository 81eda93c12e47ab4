import errno
from pathlib import Path

import pytest

from configs.errors import UserError
from tasks.storage.files import named_disk_errors


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "a folder you may write to"),
        (errno.EACCES, "a folder you may write to"),
        (errno.EIO, "look at that folder"),
    ],
)
def test_a_fault_of_the_disk_names_the_folder_and_the_cure(code, cure):
    with (
        pytest.raises(UserError, match=f"some/where must be writable.*{cure}"),
        named_disk_errors(Path("some/where")),
    ):
        raise OSError(code, "reason")


def test_other_faults_pass_through():
    with pytest.raises(KeyError), named_disk_errors(Path("x")):
        raise KeyError("y")
