"""Surveys engines: whether their functions can fail, and whether they compute DuckDB's values."""
