"""Bounding outside of SQL: a stream of rows becomes the integers of groups, in NumPy."""
