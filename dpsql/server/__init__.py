"""The server between analysts and the data: doors for their tools, one service behind."""
