"""One analyst's way to ask questions: connections, cursors, statements."""

from __future__ import annotations

import logging

# What is logged is for programs that ask for it; without them, nothing goes to stderr.
logging.getLogger("dpsql").addHandler(logging.NullHandler())
