"""How jobs are launched: shell scripts, and the words of the commands in them.

- :mod:`~syncline.jobs.launch.words`: words of a command with their places;
- :mod:`~syncline.jobs.launch.values`: values of shell variables, and how words are made of them;
- :mod:`~syncline.jobs.launch.commands`: commands that a script runs, and options of the batch system;
- :mod:`~syncline.jobs.launch.nodes`: nodes of its syntax tree;
- :mod:`~syncline.jobs.launch.expansions`: variables, arrays, defaults and arithmetic;
- :mod:`~syncline.jobs.launch.conditions`: conditions on known values;
- :mod:`~syncline.jobs.launch.statements`: statements, one after the other;
- :mod:`~syncline.jobs.launch.script`: which commands a script runs, without running any;
- :mod:`~syncline.jobs.launch.launcher`: the training program among them, and the number of accelerators.
"""
