"""The door for programs: HTTP and JSON, the same people and the same service behind."""
