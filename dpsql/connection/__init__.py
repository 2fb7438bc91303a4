"""One analyst's way to ask questions: connections, cursors, statements."""
