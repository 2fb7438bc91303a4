"""Everything that reads or writes SQL text. Only this package (and ``dpsql.query``) knows sqlglot."""
