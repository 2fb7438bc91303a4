"""Expressions over private rows: legality, totality and ranges."""
