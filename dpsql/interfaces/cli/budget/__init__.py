"""The commands of ``dpsql budget``."""
