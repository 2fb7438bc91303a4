"""The kinds of release: how each is read, drawn and described."""
