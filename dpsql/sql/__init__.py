"""Everything that reads or writes SQL. Only this package and ``dpsql.query`` know sqlglot."""
