"""Catalogs for PostgreSQL's tools: what a policy and its schema say, in PostgreSQL's own tables."""
