"""The demo: a database on real data, and a tour of it."""
