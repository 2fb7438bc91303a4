"""DuckDB, where an owner's tables are: its files, lakes and registered data."""
