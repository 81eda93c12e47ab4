import subprocess
import sys

import psutil

CHILD = "from tasks.adapters.servers.lifeline import end_with_parent; end_with_parent(); "
CHILD += "print('up', flush=True); import time; time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_a_child_ends_with_its_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"up\n"
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        # Nobody waits for an orphan here, so its end may show as a zombie.
        gone, _ = psutil.wait_procs([child], timeout=20)
        assert gone or child.status() == psutil.STATUS_ZOMBIE
