"""How jobs are launched: shell scripts, and the words of the commands in them.

- :mod:`~syncline.jobs.launch.words`: words of a command with their places;
- :mod:`~syncline.jobs.launch.values`: values of shell variables, and how words are made of them;
- :mod:`~syncline.jobs.launch.script`: which commands a script runs, without running any;
- :mod:`~syncline.jobs.launch.launcher`: the training program among them, and the number of accelerators.
"""
