"""Expressions over private rows: what is allowed, total, and of which range."""
