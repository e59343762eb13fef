"""Jobs of Megatron-LM, and of software that has its settings.

- :mod:`~syncline.jobs.megatron.arguments`: arguments by name, with the number of their values and their effect;
- :mod:`~syncline.jobs.megatron.mapping`: which key of a job file each becomes;
- :mod:`~syncline.jobs.megatron.pipeline_layout`: layers of stages as a text;
- :mod:`~syncline.jobs.megatron.yaml_arguments`: arguments in YAML;
- :mod:`~syncline.jobs.megatron.renamed`: settings of NeMo and Megatron-Bridge by names of these arguments.
"""
