"""Spark, where an owner's tables are."""
