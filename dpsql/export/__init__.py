"""Answers and budgets written to files."""
