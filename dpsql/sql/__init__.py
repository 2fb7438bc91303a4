"""Everything that reads or writes SQL. Only this package and ``dpsql.ir.query`` know sqlglot."""
