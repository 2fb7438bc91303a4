"""DuckDB's dialect, and GoogleSQL's clause for privacy parameters.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, mechanism = 'gumbel_top_k') ...

The clause stands where a hint would, straight after SELECT, and the parser leaves it there: in
``hint`` of the syntax tree's SELECT. Query parameters may be written ``?``, ``$1``, ``$name`` and
``:name``; each remembers its place in the text.
"""

from __future__ import annotations

from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parser import Parser
from sqlglot.parsers.duckdb import DuckDBParser


class PrivacyOption(exp.Expression):
    """``name = value``: ``this`` is the name as written, ``expression`` the value."""

    arg_types = {"this": True, "expression": True}  # noqa: RUF012 (sqlglot's convention)


class PrivacyOptions(exp.Hint):
    """The whole clause; without OPTIONS it holds none."""

    arg_types = {"expressions": False}  # noqa: RUF012


class PrivateDuckDB(DuckDB):
    """What analysts write. Nothing generates it: the clause never reaches an engine."""

    class Parser(DuckDBParser):
        def _parse_hint(self) -> exp.Hint | None:
            start = self._curr
            if start is None or not self._match_text_seq("WITH", "DIFFERENTIAL_PRIVACY"):
                return super()._parse_hint()
            options = []
            if self._match_text_seq("OPTIONS") and not self._match_text_seq("(", ")"):
                options = self._parse_wrapped_csv(self._parse_privacy_option)
            clause = PrivacyOptions(expressions=options)
            clause.meta.update(start=start.start, end=self._prev.end)
            return clause

        def _parse_placeholder(self) -> exp.Expr | None:
            start = self._curr
            found = super()._parse_placeholder()
            if found is not None and start is not None:
                found.meta.update(start=start.start, end=self._prev.end)
            return found

        def _parse_expression(self) -> exp.Expr | None:
            # DuckDB reads ``select :name`` as the value ``name`` under the alias ``select``.
            if self._curr is not None and self._curr.token_type == TokenType.SELECT:
                return Parser._parse_expression(self)
            return super()._parse_expression()

        def _parse_privacy_option(self) -> exp.Expr | None:
            start = self._curr
            if start is None or not self._advance_any():
                self.raise_error("Expected the name of a privacy parameter")
                return None
            if not self._match_text_seq("="):
                self.raise_error("Expected =")
            value = self._parse_unary() or self._parse_var()
            if value is None:
                self.raise_error("Expected a value")
            option = PrivacyOption(this=start.text, expression=value)
            option.meta.update(start=start.start, end=self._prev.end)
            return option
