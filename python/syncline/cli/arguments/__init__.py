"""The arguments and options of commands: one file for each group, with what several share in ``shared``.

A command passes them to the function in :mod:`syncline.cli.commands` that does the work, and imports it when it is
called.
"""
