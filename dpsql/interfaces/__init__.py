"""Ways in: the command line, the shell, the demo, SQLAlchemy."""
