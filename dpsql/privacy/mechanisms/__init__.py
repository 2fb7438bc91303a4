"""Randomised mechanisms: they know no SQL, no budget and no engine."""
