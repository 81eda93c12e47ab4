"""Networks on processors that this machine is not, as far as libraries can be told otherwise."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("torch")

HERE = Path(__file__).parents[1]
SETTINGS = {
    "this one": {},
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
    "no AVX": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
}


def _told(variables):
    """What the sample finds in a process with these variables."""
    found = subprocess.run(
        [sys.executable, HERE / "stack_sample.py"],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(found.stdout)


@pytest.mark.parametrize("processor", SETTINGS)
def test_a_network_does_not_depend_on_those_beside_it(processor):
    told = _told(SETTINGS[processor])
    assert told["differing"] == []
    wanted = SETTINGS[processor].get("ATEN_CPU_CAPABILITY", told["capability"])
    assert told["capability"].lower() == wanted.lower()


@pytest.fixture(scope="module")
def amd(tmp_path_factory):
    """Variables of a process that takes this processor for an AMD EPYC."""
    compiler = shutil.which("cc")
    faults = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not faults.exists() or compiler is None:
        pytest.skip("needs Linux on x86-64 with a C compiler")
    if "cpuid_fault" not in faults.read_text():
        pytest.skip("this processor cannot hide what it is")
    library = tmp_path_factory.mktemp("amd") / "amd.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", library, HERE / "amd_processor.c"], check=True
    )
    return {"LD_PRELOAD": str(library)}


def test_a_network_does_not_depend_on_those_beside_it_on_an_epyc(amd):
    # Its matrix products round by where their result begins in memory.
    told = _told(amd)
    assert told == {"capability": "AVX2", "differing": []}
