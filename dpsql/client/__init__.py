"""The client of a server's door for HTTP: requests, and answers as values that need no server."""
