"""DuckDB's dialect, and GoogleSQL's clause for privacy parameters.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, mechanism = 'gumbel_top_k') ...

    SUM(x, contribution_bounds_per_row => (0, 100), contribution_bounds_per_group => (0, 300))

    COUNT(*, max_error => 20)

The clause stands where a hint would, straight after SELECT, and the parser leaves it there: in
``hint`` of the syntax tree's SELECT. An aggregate with bounds or an error is wrapped in
``BoundedAggregate``.
Query parameters may be written ``?``, ``$1``, ``$name`` and ``:name``; each remembers its place in
the text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar, cast

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parser import Parser
from sqlglot.parsers.duckdb import DuckDBParser

from dpsql.core.schema import fold
from dpsql.errors import InterfaceError
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.json_paths import write_path
from dpsql.syntax.other_words import OTHER_WORDS
from dpsql.syntax.patterns import PatternRefused, read_pattern
from dpsql.syntax.word_builders import (
    READ_WHOLE,
    bare_unit,
    is_raw,
    left_as_written,
    raw_text,
)

WRITTEN_NAME = "written"
"""The key, among the metadata of a function, of its name as it was written."""
BOUNDS_PREFIX = "contribution_bounds"
MAX_ERROR = "max_error"
PER_ROW, PER_GROUP = f"{BOUNDS_PREFIX}_per_row", f"{BOUNDS_PREFIX}_per_group"
REPORT_FORMAT, OWN_EPSILON = "report_format", "epsilon"
"""Arguments of GoogleSQL's aggregates: reports of JSON are written, all others are refused."""
_PARSED: Final = NodeArguments("this")
_Node = TypeVar("_Node", bound=exp.Expr)
_Read = TypeVar("_Read")


class PrivacyOption(exp.Expression):
    """``name = value``: ``this`` is the name as written, ``expression`` the value."""

    arg_types = {"this": True, "expression": True}  # noqa: RUF012 (sqlglot's convention)


class PrivacyOptions(exp.Hint):
    """The whole clause; without OPTIONS it holds none.

    ``threshold`` is True of ``WITH AGGREGATION_THRESHOLD``, which has options of its own.
    """

    arg_types = {"expressions": False, "threshold": False}  # noqa: RUF012


class BoundedAggregate(exp.Expression):
    """An aggregate and what is given by name in its brackets: ``this``, ``Kwarg`` ``expressions``.

    These are bounds, and the error that it may have.
    """

    arg_types = {"this": True, "expressions": True}  # noqa: RUF012


def _bounds_among(arguments: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [argument for argument in arguments if _is_bound(argument)]


def _without_bounds(arguments: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [argument for argument in arguments if not _is_bound(argument)]


def _is_bound(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Kwarg):
        return False
    name = fold(node.this.name)
    return name in (MAX_ERROR, REPORT_FORMAT, OWN_EPSILON) or name.startswith(BOUNDS_PREFIX)


_AROUND_CALLS = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_AS_WRITTEN = ("TO_CHAR", "SORT_ARRAY")  # the parser makes a cast, or two of an argument
# Read like other functions: parsers of their own would drop the bounds among their arguments.
_RANKED = ("APPROX_QUANTILE", "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "MIN", "MAX", "CHR")


_QUANTILES_OF_CLICKHOUSE: Final = frozenset(
    {"QUANTILE", "QUANTILEEXACT", "QUANTILETDIGEST", "QUANTILETIMING"}
)
_QUANTILES, _TOP = "QUANTILES", "TOPK"
_PARAMETRIC: Final = _QUANTILES_OF_CLICKHOUSE | {_QUANTILES, _TOP}
_SHARES_ALONE = ("BERNOULLI", "SYSTEM")  # ways to take a sample that take no number of rows


_ANONYMIZED: Final[Mapping[str, tuple[type[exp.AggFunc], str]]] = {
    "ANON_AVG": (exp.Avg, PER_GROUP),
    "ANON_COUNT": (exp.Count, PER_GROUP),
    "ANON_SUM": (exp.Sum, PER_GROUP),
    "ANON_VAR_POP": (exp.VariancePop, PER_ROW),
    "ANON_STDDEV_POP": (exp.StddevPop, PER_ROW),
    "ANON_PERCENTILE_CONT": (exp.PercentileCont, PER_ROW),
    "ANON_QUANTILES": (exp.ApproxQuantiles, PER_ROW),
}
"""GoogleSQL's older names of aggregates, and what CLAMPED BETWEEN bounds there."""


def _parse_anonymized(parser: DuckDBParser, word: str) -> exp.Expr:
    """Read ``ANON_SUM(x CLAMPED BETWEEN 0 AND 10)`` from behind its bracket.

    ANON_AVG averages the averages of units, and is left to be refused without bounds for these.
    """
    kind, bounds = _ANONYMIZED[word]
    distinct = kind is exp.Count and parser._match(TokenType.DISTINCT)
    arguments = [parser._parse_star() or parser._parse_bitwise()]
    if distinct:
        arguments = [exp.Distinct(expressions=arguments)]
    if parser._match(TokenType.COMMA):
        arguments.append(parser._parse_bitwise())
    names = ("this", "expression")
    ends = []
    if parser._match_text_seq("CLAMPED", "BETWEEN"):
        ends.append(parser._parse_unary())
        if not parser._match(TokenType.AND):
            parser.raise_error("Expected AND")
        ends.append(parser._parse_unary())
    named: dict[str, exp.Expr] = {}
    if ends:
        named[bounds] = exp.Tuple(expressions=ends)
    start = parser._curr
    if start is not None and parser._match_text_seq("WITH", "REPORT", "(", "FORMAT"):
        written = parser._parse_var(any_token=True)
        named[REPORT_FORMAT] = exp.Literal.string("" if written is None else written.name)
        parser._match_r_paren()
    if kind is exp.Avg and not ends:
        return exp.Anonymous(this=word, expressions=arguments)
    function = kind(**dict(zip(names, arguments, strict=False)))
    if not named:
        return function
    said = [exp.Kwarg(this=exp.var(name), expression=value) for name, value in named.items()]
    if REPORT_FORMAT in named and start is not None:
        said[-1].meta.update(start=start.start, end=parser._prev.end)
    return BoundedAggregate(this=function, expressions=said)


def _parse_group_concat(parser: DuckDBParser) -> exp.Expr:
    """Read ``GROUP_CONCAT(DISTINCT x ORDER BY x SEPARATOR ', ')`` from behind its bracket."""
    first = parser._index
    depth, word = 0, None
    for place in range(first, len(parser._tokens)):
        token = parser._tokens[place]
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth < 0:
            break
        if depth == 0 and token.text.upper() == "SEPARATOR" and place > first:
            word = place
    if word is None:
        return parser._parse_string_agg()
    distinct = parser._match(TokenType.DISTINCT)
    listed = parser._parse_disjunction()
    if distinct:
        listed = exp.Distinct(expressions=[listed])
    listed = parser._parse_order(this=listed)
    if parser._index != word:
        parser.raise_error("Expected one value before SEPARATOR")
    parser._advance()
    return exp.GroupConcat(this=listed, separator=parser._parse_string())


_STYLES: Final[Mapping[str, str]] = {
    "23": "%Y-%m-%d",
    "101": "%m/%d/%Y",
    "103": "%d/%m/%Y",
    "104": "%d.%m.%Y",
    "105": "%d-%m-%Y",
    "110": "%m-%d-%Y",
    "111": "%Y/%m/%d",
    "112": "%Y%m%d",
}
"""T-SQL's styles of dates, which have no time."""
_ISO_STYLES: Final = frozenset({"20", "120", "21", "121", "126"})
"""Styles that begin with a date as ISO writes it, which is all of a short text."""
_ISO_CHARACTERS: Final = 10


def _parse_converted(parser: DuckDBParser, word: str) -> exp.Expr | None:
    """Read ``CONVERT(INT, x)``, T-SQL's, or ``CONVERT(x, INT)``, MySQL's, from behind the bracket.

    A style of T-SQL's is a format. Types of moments may be names of columns: two of them mean the
    same if they are one, and are refused else.
    """
    first, strict = parser._index, word == "CONVERT"
    to = parser._parse_types(check_func=False, allow_identifiers=False)
    if not isinstance(to, exp.DataType) or not parser._match(TokenType.COMMA):
        parser._retreat(first)
        return parser._parse_convert(strict, safe=not strict)
    start = parser._index
    other = parser._parse_types(check_func=False, allow_identifiers=False)
    if isinstance(other, exp.DataType) and parser._curr.token_type == TokenType.R_PAREN:
        named = [each.this in exp.DataType.TEMPORAL_TYPES for each in (to, other)]
        if named == [True, True] and other != to:
            parser.raise_error("One of these is a column: write CAST(x AS type)")
        if named[0]:
            parser._retreat(first)
            return parser._parse_convert(strict, safe=not strict)
    parser._retreat(start)
    value = parser._parse_bitwise()
    style = parser._parse_number() if parser._match(TokenType.COMMA) else None
    text = to.this in exp.DataType.TEXT_TYPES
    # Of a text the parser leaves the length out, as DuckDB does.
    ahead = parser._tokens[first + 1 : first + 3]
    size = ahead[1].text if ahead[0].token_type == TokenType.L_PAREN else ""
    if not text and style is None:
        return parser.build_cast(strict=strict, this=value, to=to, safe=not strict)
    form = _STYLES.get("" if style is None else style.name)
    short = size.isdecimal() and len(size) < _ISO_CHARACTERS and 0 < int(size) <= _ISO_CHARACTERS
    if form is None and short and style is not None and style.name in _ISO_STYLES:
        form = "%Y-%m-%d"
    if not text or form is None or not (size == "" or size.isdecimal()):
        kept = [exp.Literal.string(style.name)] if text and style is not None and not size else []
        return exp.Anonymous(this=word, expressions=[exp.var(to.this.name), value, *kept])
    found: exp.Expr = exp.TimeToStr(this=value, format=exp.Literal.string(form))
    if short:
        found = exp.Left(this=found, expression=exp.Literal.number(int(size)))
    return found


class Summarizing(exp.Expression):
    """Mark a source whose columns are to be summarised, in the place of a PIVOT."""

    arg_types = {}  # noqa: RUF012


def _summarizing(written: exp.Summarize) -> exp.Expr:
    """Write ``SUMMARIZE t`` as a SELECT of a source that is summarised; files stay as they are."""
    source = written.this
    if isinstance(source, exp.Query) and not isinstance(source, exp.Subquery):
        source = exp.Subquery(this=source)
    if not isinstance(source, exp.Table | exp.Subquery):
        return written
    source.append("pivots", Summarizing())
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))


def _pivoting(written: exp.Pivot) -> exp.Select:
    """Write the statement ``PIVOT t ON x USING y`` as ``SELECT * FROM t PIVOT (y FOR x)``.

    Where no values are given, what stands behind FOR is no IN but the expression alone.
    """
    source, on = written.this, written.expressions
    into = written.args.get("into")
    if written.args.get("unpivot"):
        names = [exp.to_identifier("name")] if into is None else [into.this]
        values = [exp.to_identifier("value")] if into is None else into.expressions
        pivot = exp.Pivot(
            expressions=values, fields=[exp.In(this=names[0], expressions=on)], unpivot=True
        )
    else:
        using = written.args.get("using") or [exp.Count(this=exp.Star(), big_int=True)]
        pivot = exp.Pivot(expressions=using, fields=on, unpivot=False, into=into)
    pivot.set("group", written.args.get("group"))
    source.append("pivots", pivot)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))


_RESPELLED: Final = (
    *(exp.TimeToStr, exp.StrToTime),
    *(exp.JSONExtract, exp.JSONExtractScalar, exp.JSONKeys),
)
"""Calls whose second argument, a format or a path, is another node once it is read."""
_CUT: Final = (exp.DateTrunc, exp.TimestampTrunc)
"""Calls whose first argument, a unit, is another node once it is read."""
_OF_UNITS: Final = (*_CUT, exp.DateDiff, exp.DateAdd, exp.DateSub, exp.Extract, exp.LastDay)


def _is_left_out(place: int, given: exp.Expr | None, call: exp.Expr) -> bool:
    """Tell whether an argument is in no part of the call that was built of it."""
    if call.meta.get(READ_WHOLE):
        return False
    if isinstance(given, exp.Literal) and (
        (place == 1 and isinstance(call, _RESPELLED)) or (place == 0 and isinstance(call, _CUT))
    ):
        return False
    if isinstance(call, _OF_UNITS) and given is not None and bare_unit(given) is not None:
        return False  # a word such as DAY, read as a unit
    node = given
    while node is not None and node is not call:
        node = node.parent
    return node is None


def _read_extraction(args: list[exp.Expr], dialect: DuckDB) -> exp.Expr:
    """Read REGEXP_EXTRACT; of a pattern r'…' with one group, and no number, it takes the group.

    Who writes r'…' writes GoogleSQL or Spark, which take it. Of other patterns DuckDB takes the
    whole. One with several groups is left to be refused.
    """
    if len(args) == len(("text", "pattern")) and is_raw(args[1]) and (groups := _groups(args[1])):
        if groups > 1:
            return left_as_written("REGEXP_EXTRACT", args)
        args = [*args, exp.Literal.number(1)]
    return cast(exp.Expr, DuckDBParser.FUNCTIONS["REGEXP_EXTRACT"](args, dialect))


def _groups(pattern: exp.Expr) -> int:
    try:
        return read_pattern(pattern.name, captures=True).groups
    except PatternRefused:
        return 0


def _is_test(node: exp.Expr) -> bool:
    """Tell whether a node is surely a condition, and no OR, which systems read before XOR."""
    bare = node.unnest()
    return isinstance(bare, exp.Predicate | exp.Not | exp.And) or (
        bare is not node and isinstance(bare, exp.Or)
    )


class PrivateDuckDB(DuckDB):
    """The dialect of analysts. Nothing generates it: the clause never reaches an engine."""

    ORIGINAL_NAME_META_KEY = WRITTEN_NAME
    INDEX_OFFSET = 0
    """Places in brackets stay as written: to move them, a parser must guess what they are of."""

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """Leave a path into JSON as it is written: a field ``a.b`` is no path of two."""
        return path

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        RAW_STRINGS = [("r'", "'"), ("R'", "'")]  # noqa: RUF012  # GoogleSQL's patterns
        KEYWORDS = {  # noqa: RUF012
            **DuckDB.Tokenizer.KEYWORDS,
            "FLOAT64": TokenType.DOUBLE,
        }

    class Parser(DuckDBParser):
        FUNCTIONS = {  # noqa: RUF012
            **{n: make for n, make in DuckDBParser.FUNCTIONS.items() if n not in _AS_WRITTEN},
            **OTHER_WORDS,
            "REGEXP_EXTRACT": _read_extraction,
        }

        FUNCTION_PARSERS = {  # noqa: RUF012
            **{
                name: parse
                for name, parse in DuckDBParser.FUNCTION_PARSERS.items()
                if name not in _RANKED
            },
            **{name: partial(_parse_anonymized, word=name) for name in _ANONYMIZED},
            **{name: partial(_parse_converted, word=name) for name in ("CONVERT", "TRY_CONVERT")},
            "GROUP_CONCAT": _parse_group_concat,
        }

        # Text between dollars is text like any other.
        PRIMARY_PARSERS = {  # noqa: RUF012
            **DuckDBParser.PRIMARY_PARSERS,
            TokenType.HEREDOC_STRING: lambda _, token: exp.Literal.string(token.text),
            TokenType.RAW_STRING: lambda _, token: raw_text(token.text),
        }

        _within_brackets = 0  # where a colon stands between two places, or behind a name

        # Names before a colon that were found to be aliases. Each is tried once: what is behind
        # one may have others within, and trying those twice each doubles the time with each level.
        _aliases: set[Token]

        def reset(self) -> None:
            super().reset()
            self._aliases = set()

        # The arguments of the last function with known arguments, and the bounds among them.
        _bounded: tuple[list[exp.Expr], list[exp.Expr]] = ([], [])

        def _parse_hint(self) -> exp.Hint | None:
            start = self._curr
            threshold = bool(self._match_text_seq("WITH", "AGGREGATION_THRESHOLD"))
            if start is None or not (
                threshold
                or self._match_text_seq("WITH", "DIFFERENTIAL_PRIVACY")
                or self._match_text_seq("WITH", "ANONYMIZATION")
            ):
                return super()._parse_hint()
            options = []
            if self._match_text_seq("OPTIONS") and not self._match_text_seq("(", ")"):
                options = self._parse_wrapped_csv(self._parse_privacy_option)
            clause = PrivacyOptions(expressions=options, threshold=threshold)
            clause.meta.update(start=start.start, end=self._prev.end)
            return clause

        def _parse_limit(
            self,
            this: exp.Expr | None = None,
            top: bool = False,
            skip_limit_token: bool = False,
        ) -> exp.Expr | None:
            # TOP is a word only before a number, or one in brackets: it may be the name of
            # a column as well, and is none of a function.
            ahead = self._tokens[self._index + 1 : self._index + 4]
            kinds = [token.token_type for token in ahead]
            bracketed = kinds == [TokenType.L_PAREN, TokenType.NUMBER, TokenType.R_PAREN]
            if not top or not (bracketed or kinds[:1] == [TokenType.NUMBER]):
                return super()._parse_limit(this, top, skip_limit_token)
            if not self._match_text_seq("TOP"):
                return None
            number = self._parse_wrapped(self._parse_number) if bracketed else self._parse_number()
            limit = exp.Limit(expression=number)
            if self._match_texts(("PERCENT", "WITH")):
                self.raise_error("Expected a number of rows alone")
            limit.meta["top"] = True
            return limit

        def _parse_table_sample(self, as_modifier: bool = False) -> exp.TableSample | None:
            first, sampling = self._index, self._samples_here()
            if sampling and self._curr is not None:
                word = self._curr
                self._curr = self._tokens[first] = Token(
                    TokenType.TABLE_SAMPLE, word.text, word.line, word.col, word.start, word.end
                )
            found = super()._parse_table_sample(as_modifier)
            if found is None:
                return None
            read = self._tokens[first : self._index]
            found.meta.update(start=read[0].start, end=read[-1].end)
            # ``BERNOULLI (10)`` is a share, as in PostgreSQL: no number of rows goes with it. So is
            # Snowflake's ``SAMPLE (10)``.
            size, method = found.args.get("size"), found.args.get("method")
            rows = any(token.token_type in (TokenType.ROW, TokenType.ROWS) for token in read)
            way = "" if method is None else str(method.name).upper()
            if size is not None and not rows and (sampling or way in _SHARES_ALONE):
                found.set("percent", size)
                found.set("size", None)
                found.set("method", exp.var("BERNOULLI") if sampling else method)
            return found

        def _samples_here(self) -> bool:
            """Tell whether ``SAMPLE (10`` follows: a number is no column that an alias names."""
            ahead = self._tokens[self._index : self._index + 3]
            kinds = [token.token_type for token in ahead[1:]]
            number = kinds == [TokenType.L_PAREN, TokenType.NUMBER]
            return number and ahead[0].text.upper() == "SAMPLE"

        def _parse_table_hints(self) -> list[exp.Expr] | None:
            # WITH (NOLOCK) is about the locks of SQL Server, and says nothing of the answer.
            ahead = [token.text.upper() for token in self._tokens[self._index : self._index + 4]]
            if ahead == ["WITH", "(", "NOLOCK", ")"]:
                self._advance(4)
                return None
            return super()._parse_table_hints()

        def _parse_table_alias(
            self, alias_tokens: Collection[TokenType] | None = None
        ) -> exp.TableAlias | None:
            return None if self._samples_here() else super()._parse_table_alias(alias_tokens)

        def _parse_select_query(
            self,
            nested: bool = False,
            table: bool = False,
            parse_subquery_alias: bool = True,
            parse_set_operation: bool = True,
        ) -> exp.Expr | None:
            found = super()._parse_select_query(
                nested, table, parse_subquery_alias, parse_set_operation
            )
            return _summarizing(found) if isinstance(found, exp.Summarize) else found

        def _parse_simplified_pivot(  # type: ignore[override]  # of a statement, a query is made
            self, is_unpivot: bool | None = None
        ) -> exp.Select:
            written = super()._parse_simplified_pivot(is_unpivot)
            select = _pivoting(written)
            select.set("order", self._parse_order())
            select.set("limit", self._parse_limit())
            return select

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
            # It reads ``name: value`` as an alias, too; what has one behind it is a part of JSON.
            name, ahead = self._curr, self._next
            colon = ahead is not None and ahead.token_type == TokenType.COLON
            if colon and name is not None and name not in self._aliases:
                first = self._index
                found = self._try_parse(lambda: Parser._parse_expression(self))
                if isinstance(found, exp.Alias):
                    return found
                self._retreat(first)
                self._aliases.add(name)
            return super()._parse_expression()

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            self._within_brackets += 1
            try:
                found = super()._parse_bracket(this)
            finally:
                self._within_brackets -= 1
            return found

        def _parse_wrapped(
            self, parse_method: Callable[[], _Read], optional: bool = False
        ) -> _Read:
            within, self._within_brackets = self._within_brackets, 0
            try:
                return super()._parse_wrapped(parse_method, optional)
            finally:
                self._within_brackets = within

        def _parse_column(self) -> exp.Expr | None:
            found = super()._parse_column()
            return found if found is None or self._within_brackets else self._parse_part_of(found)

        def _parse_part_of(self, document: exp.Expr) -> exp.Expr:
            """Read Snowflake's ``x:a.b[0]`` and what is cast of it, ``x:a::INT``, behind ``x``."""
            ahead = self._tokens[self._index : self._index + 2]
            names = (TokenType.VAR, TokenType.IDENTIFIER)
            kinds = [token.token_type for token in ahead]
            if kinds not in [[TokenType.COLON, kind] for kind in names]:
                return document
            self._advance(2)
            steps: list[str | int] = [self._prev.text]
            while True:
                ahead = self._tokens[self._index : self._index + 3]
                kinds = [token.token_type for token in ahead]
                if kinds[:2] in [[TokenType.DOT, kind] for kind in names]:
                    steps.append(ahead[1].text)
                    self._advance(2)
                elif kinds == [TokenType.L_BRACKET, TokenType.NUMBER, TokenType.R_BRACKET]:
                    if not ahead[1].text.isdecimal():
                        break
                    steps.append(int(ahead[1].text))
                    self._advance(3)
                elif kinds == [TokenType.L_BRACKET, TokenType.STRING, TokenType.R_BRACKET]:
                    steps.append(ahead[1].text)
                    self._advance(3)
                else:
                    break
            read = isinstance(document, exp.ParseJSON) and _PARSED.hold(document)
            path = exp.Literal.string(write_path(tuple(steps)))
            part = exp.JSONExtractScalar(this=document.this if read else document, expression=path)
            return self._parse_column_ops(part) or part

        def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
            start = self._curr
            # A part of JSON, COUNT(j->'a'->>'b'): no lambda of use is a constant.
            after = self._tokens[self._index + 2 : self._index + 3]
            arrow = self._next is not None and self._next.token_type == TokenType.ARROW
            if arrow and after and after[0].token_type in (TokenType.STRING, TokenType.NUMBER):
                return self._parse_order(self._parse_select_or_expression(alias=alias))
            found = super()._parse_lambda(alias)
            if isinstance(found, exp.Kwarg) and start is not None:
                self._note_argument(found, start)
            return found

        def _note_argument(self, kwarg: exp.Kwarg, start: Token) -> None:
            """Keep the place of an argument by name; the format of a report is no column."""
            kwarg.meta.update(start=start.start, end=self._prev.end)
            if fold(kwarg.this.name) == REPORT_FORMAT:
                kwarg.set("expression", exp.Literal.string(kwarg.expression.name))

        def _parse_disjunction(self) -> exp.Expr | None:
            # After DISTINCT, arguments are plain expressions to the parser.
            name = self._curr
            following = self._next
            if name and following and following.token_type == TokenType.FARROW:
                self._advance(2)
                value = self._parse_disjunction()
                kwarg = exp.Kwarg(this=exp.var(name.text), expression=value)
                self._note_argument(kwarg, name)
                return kwarg
            found = super()._parse_disjunction()
            while found is not None and self._one_or_other():
                self._advance()
                other = super()._parse_disjunction()
                if other is None or not (_is_test(found) and _is_test(other)):
                    self.raise_error("Expected conditions on both sides of XOR, OR in brackets")
                    break
                found = exp.NEQ(this=exp.paren(found), expression=exp.paren(other))
            return found

        def _one_or_other(self) -> bool:
            """Tell whether MySQL's XOR follows."""
            return self._curr is not None and self._curr.token_type == TokenType.XOR

        def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
            parsed = super()._parse_function_args(alias)
            if alias:  # the function is unknown, and so is what its arguments mean
                return parsed
            arguments, bounds = _without_bounds(parsed), _bounds_among(parsed)
            for distinct in arguments:
                if isinstance(distinct, exp.Distinct):
                    bounds += _bounds_among(distinct.expressions)
                    distinct.set("expressions", _without_bounds(distinct.expressions))
            self._bounded = (arguments, bounds)
            return arguments

        def validate_expression(
            self, expression: _Node, args: list[exp.Expr] | None = None
        ) -> _Node:
            # Builders leave out what they have no room for, without a word.
            if any(_is_left_out(*each, expression) for each in enumerate(args or ())):
                self.raise_error("a call has more arguments than are read")
            # A CASE that was made of a call has no arguments to count.
            counted = None if expression.meta.get(READ_WHOLE) else args
            valid = super().validate_expression(expression, counted)
            arguments, bounds = self._bounded
            if args is arguments and bounds:
                return cast(_Node, BoundedAggregate(this=valid, expressions=bounds))
            return valid

        def _parse_function_call(
            self,
            functions: dict[str, Callable[..., exp.Expr]] | None = None,
            anonymous: bool = False,
            optional_parens: bool = True,
            any_token: bool = False,
        ) -> exp.Expr | None:
            # Functions with a grammar of their own, and those without brackets, note neither where
            # they stand nor how they were written.
            start = self._curr
            found = self._parse_parametric()
            found = self._parse_window(found) if found is not None else None
            found = found or super()._parse_function_call(
                functions, anonymous, optional_parens, any_token
            )
            function = found
            while isinstance(function, _AROUND_CALLS):
                function = function.this
            if isinstance(function, exp.Func) and start is not None:
                meta = function.meta
                if WRITTEN_NAME not in meta and not isinstance(function, exp.Cast | exp.Case):
                    meta[WRITTEN_NAME] = start.text
                if "start" not in meta:
                    meta.update(start=start.start, end=start.end)
            return found

        def _parse_parametric(self) -> exp.Expr | None:
            """Read ClickHouse's ``quantile(0.9)(x)``, ``quantiles(0.5, 0.9)(x)``, ``topK(3)(x)``.

            Their numbers stand in brackets before the value.
            """
            name, ahead = self._curr, self._tokens[self._index + 1 : self._index + 3]
            kinds = [token.token_type for token in ahead]
            word = "" if name is None else name.text.upper()
            if kinds != [TokenType.L_PAREN, TokenType.NUMBER] or word not in _PARAMETRIC:
                return None
            first = self._index
            self._advance()
            numbers = self._parse_wrapped_csv(self._parse_number)
            if self._curr is None or self._curr.token_type != TokenType.L_PAREN:
                self._retreat(first)
                return None
            value = self._parse_wrapped(self._parse_disjunction)
            if word == _QUANTILES:
                return exp.PercentileCont(this=value, expression=exp.Array(expressions=numbers))
            if len(numbers) != 1:
                self.raise_error("Expected one number before the value")
            if word == _TOP:
                return exp.ApproxTopK(this=value, expression=numbers[0])
            return exp.ApproxQuantile(this=value, quantile=numbers[0])

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


def check_parser() -> None:
    """Refuse a compiled sqlglot, whose parser takes no dialect but its own.

    Each statement would be refused as one that nobody understands. Raises ``InterfaceError``
    (``package_incompatible``).
    """
    try:
        PrivateDuckDB().parser()
        return
    except TypeError:
        pass
    raise InterfaceError(
        "sqlglot is compiled here, by the package sqlglotc, and cannot parse dpsql's SQL",
        code="package_incompatible",
        hint="Uninstall it: pip uninstall sqlglotc. What needs it goes into another environment.",
    )
