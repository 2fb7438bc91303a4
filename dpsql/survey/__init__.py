"""Surveys engines: whether what they compute can fail, and whether it is what DuckDB computes."""
