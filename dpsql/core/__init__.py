"""The foundation: schemas, quoting, names, plain values, formatting."""
