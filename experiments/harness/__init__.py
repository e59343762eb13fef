"""What every experiment shares, in reading order.

- :mod:`~experiments.harness.claim`: what a paper says, and whether it holds
- :mod:`~experiments.harness.table`: measured values, for people and for machines
- :mod:`~experiments.harness.runner`: simulates scenarios under the settings of a run, each once
- :mod:`~experiments.harness.case`: what is simulated, and the name of its results
- :mod:`~experiments.harness.store`: keeps results, so that a later command need not simulate them again
- :mod:`~experiments.harness.processes`: simulates long runs side by side
- :mod:`~experiments.harness.testbed`: runs beside what is simulated, on hosts that this machine emulates
- :mod:`~experiments.harness.rows`: tables of a run, row by row
- :mod:`~experiments.harness.experiment`: one figure: claims, choices, what is measured, how it is drawn
- :mod:`~experiments.harness.study`: an experiment run under all its choices
- :mod:`~experiments.harness.library`: finds papers and their figures by name
- :mod:`~experiments.harness.show`: the report on the terminal
- :mod:`~experiments.harness.plot`: the style of every plot
- :mod:`~experiments.harness.files`: CSV, JSON and pictures in a folder
- :mod:`~experiments.harness.command`: the command line
"""
