"""The source tables of ``runs.csv``: one function a table, one file for tables of one origin.

Each reading of what a table leaves open is a constant or a comment beside its function; ``row`` has what all share.
"""
