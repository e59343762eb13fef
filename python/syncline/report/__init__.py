"""Results and scenarios as people see them: the answer, tables, drawings."""
