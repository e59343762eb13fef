"""The testbed: a cluster of Linux network namespaces that emulates a fabric on one machine.

From what a user writes to what runs: :mod:`.spec` reads it, :mod:`.layout` finds hosts, bridges and addresses,
:mod:`.commands` says what to tell the kernel, :mod:`.kernel` tells it, :mod:`.lifecycle` brings testbeds up and down,
:mod:`.state` remembers which there are. :mod:`.processes` runs commands on hosts, :mod:`.check` measures what links
really do, :mod:`.costs` what messages and bytes cost hosts, :mod:`.guardian` cleans up after a process that was killed.
"""
