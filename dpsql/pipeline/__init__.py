"""The way of a question: prepare, read, release, post-process."""
