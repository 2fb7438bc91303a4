"""What is kept of a release: how a question is known, its bytes, what follows from several."""
