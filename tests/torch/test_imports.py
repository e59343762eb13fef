"""PyTorch is never imported unless it is asked for."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_but_its_own_package_imports_pytorch():
    program = (
        "import sys, syncline, syncline.runtime, syncline.cli, syncline.runtime.messenger\n"
        "assert not {'torch', 'redis', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_pytorch_its_own_package_says_how_to_get_it():
    program = (
        "import importlib.util as u, sys\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "import syncline.torch\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'pip install "syncline[torch]"' in done.stderr.splitlines()[-1]
