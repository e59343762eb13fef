"""What tests of traced modules share. Without PyTorch they are skipped."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason='PyTorch is not installed: pip install "syncline[torch]"')
