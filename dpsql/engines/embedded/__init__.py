"""DuckDB as dpsql runs it for itself: constants, twins, plans, processes apart."""
