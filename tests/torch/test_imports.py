"""PyTorch is imported only by ``syncline.torch``."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest


def test_other_packages_do_not_import_pytorch():
    program = (
        "import sys, syncline, syncline.runtime, syncline.cli\n"
        "assert not {'torch', 'redis', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_pytorch_that_is_too_old_is_refused():
    program = "import importlib.metadata as m\nm.version = lambda name: '2.13.1+cpu'\nimport syncline.torch\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "needs PyTorch 2.14 or newer, and this is 2.13.1+cpu" in done.stderr.splitlines()[-1]


def test_without_pytorch_the_import_error_says_how_to_install_it():
    program = (
        "import importlib.util as u, sys\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "import syncline.torch\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'pip install "torch>=2.14"' in done.stderr.splitlines()[-1]
