"""Follows the privacy unit through FROM clauses, subqueries and set operations."""
