"""Exact samplers on lattices, from the operating system's entropy."""
