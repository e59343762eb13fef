"""Scenarios: their typed models, and how they are resolved into what Rust takes.

In reading order:

==================== ==================================================================
module               what it holds
==================== ==================================================================
``scenario``         a whole scenario as users write it; its parts are in ``workload``,
                     ``compute``, ``fabric``, ``built``, ``collectives``, ``network``,
                     ``faults``, ``jitter``, ``jobs``, ``prices``
``expand_workload,   shorthands into the resolved form
expand_compute,
expand_fabric,
expand_built,
expand_jobs,
expand_nccl,
expand_prices``
``model_file``       ``config.json`` of Hugging Face
``shape``            sizes of regular fabrics in one word, such as ``2x4x4``
``edges, edges_csv`` fabrics given link by link, also as CSV
``origin``           what the core reports, mapped back to file and line
``load``             all of it in order
``run_overrides``    ``--set`` on the resolved scenario in a run's folder
``files``            paths in the resolved form, as seen from another folder
``schema``           the JSON schema for editors
``other_tools``      hints for keys that users know from other tools
==================== ==================================================================

:mod:`syncline.input` reads the files and checks their values.
"""
