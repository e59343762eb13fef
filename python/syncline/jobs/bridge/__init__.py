"""Jobs of Megatron-Bridge.

- :mod:`~syncline.jobs.bridge.mapping`: which setting of Megatron-LM each key of its YAML file is;
- :mod:`~syncline.jobs.bridge.conversion`: reads the file.
"""
