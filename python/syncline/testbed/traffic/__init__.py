"""The traffic of emulated tenants: other users of a cloud, whose flows share the links of a testbed.

In reading order: :mod:`.spec` is the schema of ``traffic``; :mod:`.schedule` draws from a seed which flows run when;
:mod:`.attach` finds the ends of flows, and attaches the tenants' own machines to racks; :mod:`.generator` is the
process that sends and receives; :mod:`.control` starts it, switches tenants on and off, and reads its counters.
"""
