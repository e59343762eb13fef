"""One module for each family of operations: its grid of shapes, and how each is run."""

from __future__ import annotations
