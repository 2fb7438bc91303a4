"""Evidence on engines: surveys of their functions, and trials of expressions."""
