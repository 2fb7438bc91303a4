"""Tools for programs that talk: language models ask aggregates through them, and never rows.

They stand on :mod:`dpsql.service` and know no transport. ``tools`` has the tools and their
descriptions, ``replies`` the schemas of their answers and refusals, ``values`` the form of each
value, ``teaching`` what a refusal proposes, ``prose`` the check of numbers in a text.
"""
