"""Jobs of NeMo 1.

- :mod:`~syncline.jobs.nemo.mapping`: which setting of Megatron-LM each key of its YAML file is;
- :mod:`~syncline.jobs.nemo.conversion`: reads the file.
"""
