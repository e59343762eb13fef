"""Every limit on what a user's file may hold, in one place. Each is tested at the limit and one past it."""

MAX_BYTES = 16 * 1024 * 1024
"""Size of a scenario file."""

MAX_DEPTH = 64
"""Mappings and lists inside each other."""

MAX_NODES = 1_000_000
"""Values in a file."""

MAX_ALIASED = 100_000
"""Values that aliases may add by repeating what an anchor names."""

MAX_EDGES = 1_000_000
"""Links of a fabric that is given link by link."""

MAX_VERTICES = 1_000_000
"""NPUs of such a fabric, and its switches."""

MAX_EDGE_FILE_BYTES = 1 << 30
"""Size of an edge list in CSV form."""

MAX_MODEL_FILE_BYTES = 1024 * 1024
"""Size of a file that describes a model."""

MAX_PRICE_FILE_BYTES = 1024 * 1024
"""Size of a file of prices."""

MAX_TIMES = 400_000
"""Times of a table of measured ones."""

MAX_POINTS = 10_000
"""Points of an efficiency curve."""

MAX_PROBLEMS = 50
"""Errors that are reported one by one."""
