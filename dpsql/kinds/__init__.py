"""The kinds of release: what is read of each, what is drawn, and what is told of it."""
