import subprocess
import sys

import psutil
import pytest
from deadlines import patient

CHILD = "from tasks.cluster.signals import end_with_parent; end_with_parent(); "
CHILD += "print('up', flush=True); import time; time.sleep(3600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_a_child_ends_with_its_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"up\n"
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        # Nobody waits for an orphan here, so its end may show as a zombie.
        gone, _ = psutil.wait_procs([child], timeout=patient(60))
        assert gone or child.status() == psutil.STATUS_ZOMBIE


ORPHAN = """
import multiprocessing, os, signal, sys, time
from tasks.cluster.signals import end_with_parent

def late(parent):
    if "deaf" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.getppid() == parent:
        time.sleep(0.01)
    end_with_parent()
    time.sleep(600)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=late, args=(os.getpid(),))
    child.start()
    print(child.pid, flush=True)
    child.join()
"""


@pytest.mark.parametrize("words", [[], pytest.param(["deaf"], marks=pytest.mark.slow)])
def test_a_child_whose_parent_was_killed_before_it_could_look_ends_too(tmp_path, words):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    command = [sys.executable, tmp_path / "orphan.py", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        gone, _ = psutil.wait_procs([child], timeout=patient(60))
        ended = bool(gone) or child.status() == psutil.STATUS_ZOMBIE
        if not ended:
            child.kill()
        assert ended
