"""What comes after a release: public SQL over released rows, in rooms of its own."""
