"""Configuration: YAML checked against typed models with units, and resolved into what the core takes.

In reading order:

==================== ==================================================================
module               what it holds
==================== ==================================================================
``scenario``         a whole scenario as users write it; its parts are in ``workload``,
                     ``compute``, ``fabric``, ``collectives``, ``faults``,
                     ``prices``
``base, quantity,    what the parts have in common: strictness, units, shapes
shape``
``node, yaml,        values with their places, read from a file, changed by ``--set``
source``
``check``            values against models: everything that is wrong, at once
``problem``          how a diagnostic is made
``expand_workload,   shorthands into the resolved form
expand_fabric,
expand_prices,
edges, edges_csv``
``origin``           what the core reports, mapped back to file and line
``load``             all of it in order
``kept_changes``     ``--set`` on the resolved scenario in a run's folder
``files``            paths in the resolved form, as seen from another folder
``schema``           the JSON schema for editors
``limits``           how large a file may be
==================== ==================================================================
"""
