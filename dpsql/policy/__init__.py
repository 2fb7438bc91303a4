"""Policies: the model, its file, and the table of parameters."""
