"""Tails: public SQL over released rows, in rooms of its own."""
