"""Private blocks of a query: validated, built, examined."""
