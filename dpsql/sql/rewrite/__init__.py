"""Writes the SQL that reads private rows with bounded contributions."""
