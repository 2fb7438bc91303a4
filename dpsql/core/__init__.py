"""What everything rests on: schemas, quoting, names, plain values, formatting."""
