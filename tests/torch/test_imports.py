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
