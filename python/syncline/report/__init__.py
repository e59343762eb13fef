"""Presents results and scenarios to users: answers, tables, drawings, the HTML report."""
