"""Where private rows live. Engines run generated SQL and know nothing of privacy."""
