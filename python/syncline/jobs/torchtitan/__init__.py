"""Jobs of torchtitan.

- :mod:`~syncline.jobs.torchtitan.mapping`: which key of a job file each key of its TOML file becomes;
- :mod:`~syncline.jobs.torchtitan.conversion`: reads the file.
"""
