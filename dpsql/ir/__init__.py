"""Questions and plans as plain values: queries, rows, measures, plans."""
