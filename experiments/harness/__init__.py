"""Code shared by all experiments, in reading order.

- :mod:`~experiments.harness.claim`: a claim of a paper, and the verdict on it
- :mod:`~experiments.harness.table`: measured values, for people and for machines
- :mod:`~experiments.harness.runner`: simulates scenarios under one set of settings; each case only once
- :mod:`~experiments.harness.case`: one simulation, and the name of its results
- :mod:`~experiments.harness.store`: stores results, so that later commands can reuse them
- :mod:`~experiments.harness.processes`: simulates long runs in parallel
- :mod:`~experiments.harness.testbed`: measures on hosts that this machine emulates, for comparison with simulations
- :mod:`~experiments.harness.cluster`: a testbed that stays up while several things are measured on it
- :mod:`~experiments.harness.rows`: tables of a run, row by row
- :mod:`~experiments.harness.experiment`: one figure: its claims, its choices, and functions that measure and draw it
- :mod:`~experiments.harness.study`: runs an experiment under all its choices
- :mod:`~experiments.harness.library`: finds papers and their figures by name
- :mod:`~experiments.harness.show`: the report on the terminal
- :mod:`~experiments.harness.plot`: the style of every plot
- :mod:`~experiments.harness.files`: writes CSV, JSON and picture files
- :mod:`~experiments.harness.command`: the command line
"""
