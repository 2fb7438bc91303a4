"""How generated SQL is spelled for each engine."""
