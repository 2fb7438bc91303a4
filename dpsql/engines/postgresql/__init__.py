"""PostgreSQL, where an owner's tables are."""
