"""Scenarios: their typed models, and how they are resolved into what Rust takes.

In reading order:

==================== ==================================================================
module               what it holds
==================== ==================================================================
``scenario``         a whole scenario as users write it; its parts are in ``workload``,
                     ``compute``, ``fabric``, ``collectives``, ``network``, ``faults``,
                     ``jitter``, ``jobs``, ``prices``
``expand_workload,   shorthands into the resolved form
expand_compute,
expand_fabric,
expand_jobs,
expand_prices,
edges, edges_csv``
``origin``           what the core reports, mapped back to file and line
``load``             all of it in order
``kept_changes``     ``--set`` on the resolved scenario in a run's folder
``files``            paths in the resolved form, as seen from another folder
``schema``           the JSON schema for editors
==================== ==================================================================

:mod:`syncline.input` reads the files and checks their values.
"""
