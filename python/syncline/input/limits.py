"""Every limit on what a user's file may hold, in one place. Each is tested at the limit and one past it."""

MAX_BYTES = 16 * 1024 * 1024
"""Size of a scenario file."""

MAX_DEPTH = 64
"""Nesting depth of mappings and lists."""

MAX_NODES = 1_000_000
"""Values in a file."""

MAX_ALIASED = 100_000
"""Values that aliases add by repeating those of an anchor."""

MAX_EDGES = 1_000_000
"""Links of a fabric that is given link by link."""

MAX_VERTICES = 1_000_000
"""NPUs of such a fabric; likewise switches."""

MAX_EDGE_FILE_BYTES = 1 << 30
"""Size of an edge list in CSV form."""

MAX_DISTANCE_FILE_BYTES = 1 << 30
"""Size of a file of measurements between hosts."""

MAX_HOSTS = 16_384
"""Hosts of such a file: a matrix of them has 268 million entries."""

MAX_SLOTS = 4096
"""Ranks on a host."""

MAX_MODEL_FILE_BYTES = 1024 * 1024
"""Size of a file that describes a model."""

MAX_PRICE_FILE_BYTES = 1024 * 1024
"""Size of a file of prices."""

MAX_KERNELS = 400_000
"""Rows of a table of measured kernels."""

MAX_KERNEL_FILE_BYTES = 256 * 1024 * 1024
"""Size of such a table."""

MAX_RUNS = 100_000
"""Rows of a file of measured runs."""

MAX_RUN_FILE_BYTES = 64 * 1024 * 1024
"""Size of a file of measured runs."""

MAX_TIMES = 400_000
"""Times in a table of measured times."""

MAX_POINTS = 10_000
"""Points of an efficiency curve."""

MAX_PROBLEMS = 50
"""Errors that are reported individually."""
