"""The PostgreSQL protocol: what psql and drivers speak, version 3.0."""
