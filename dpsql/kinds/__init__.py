"""The kinds of release: how the rows of each are read, and what is drawn of them."""
