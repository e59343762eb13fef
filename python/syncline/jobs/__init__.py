"""Training jobs as files: what a job's step takes, whether it fits, and what would be better.

>>> from syncline.jobs import estimate, read_job
>>> found = estimate(read_job("job.yaml"))  # doctest: +SKIP

- :mod:`~syncline.jobs.job_file`: the schema of a job file;
- :mod:`~syncline.jobs.training_job`: reads one;
- :mod:`~syncline.jobs.checks`: what its values must have in common;
- :mod:`~syncline.jobs.other_files`: what else users have, and what to do with it;
- :mod:`~syncline.jobs.written`: the job file of a job that a search found;
- :mod:`~syncline.jobs.schema`: the JSON schema, for editors;
- :mod:`~syncline.jobs.estimation`: its step and memory;
- :mod:`~syncline.jobs.alternatives`: what would make it faster;
- :mod:`~syncline.jobs.slowest_stage`: the slowest stage of its pipeline, why it is slow, and what would balance it;
- :mod:`~syncline.jobs.screen`: what ``syncline estimate`` prints;
- :mod:`~syncline.jobs.detail`, :mod:`~syncline.jobs.charts` and :mod:`~syncline.jobs.page`: the step pass by pass,
  drawn, and as a page;
- :mod:`~syncline.jobs.launch`: commands of shell scripts;
- :mod:`~syncline.jobs.settings`, :mod:`~syncline.jobs.yaml_settings` and :mod:`~syncline.jobs.keys`: settings of other
  software, and what each means for time and memory; :mod:`~syncline.jobs.given`: what options add to them;
- :mod:`~syncline.jobs.converted`: the job file of settings;
- :mod:`~syncline.jobs.megatron`, :mod:`~syncline.jobs.nemo`, :mod:`~syncline.jobs.bridge` and
  :mod:`~syncline.jobs.torchtitan`: settings of these.
"""

from syncline.jobs.alternatives import Faster, faster
from syncline.jobs.estimation import Estimate, estimate
from syncline.jobs.training_job import TrainingJob, read_job

__all__ = ["Estimate", "Faster", "TrainingJob", "estimate", "faster", "read_job"]
