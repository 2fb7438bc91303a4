"""Kept releases: the fingerprint of a question, its bytes, pooling and roll-up."""
