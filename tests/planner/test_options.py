"""OPTIONS: what one SELECT asks for itself, in GoogleSQL's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers.support import Planned, planned, policy
from test_sql import SCHEMA

from dpsql.errors import Error, ParameterError, QueryRefused, SQLSyntaxError
from dpsql.policy.parameters import ContributionBounding, Maxima, Parameters

RULES = replace(policy(), maxima=Maxima(epsilon=8.0))
TOP = "k, COUNT(DISTINCT uid) AS c FROM visits GROUP BY k ORDER BY c DESC LIMIT 3"


def ask(options: str, rest: str = TOP, **parameters: Any) -> Planned:
    return planned(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {options} {rest}", SCHEMA, RULES, **parameters
    )


def test_every_parameter_can_be_stated_and_the_nearest_wins() -> None:
    options = (
        "OPTIONS (epsilon = 0.25, DELTA=1e-9, max_groups_contributed=4, max_rows_contributed = 2,"
        " k_bar = 77, min_units_per_group = 1, contribution_bounding = weight)"
    )
    found = ask(options, epsilon=3.0, k_bar=5).query.blocks[0].parameters
    stated = Parameters(0.25, 1e-9, 4, 2, 77, 1, ContributionBounding.WEIGHT)
    assert found == replace(stated, left_out_share=RULES.defaults.left_out_share)
    assert ask("", epsilon=3.0).query.blocks[0].parameters.epsilon == 3.0
    assert ask("OPTIONS ()").query.blocks[0].parameters == RULES.defaults.with_usual_numbers


def test_null_gives_no_limit_so_that_one_is_found() -> None:
    null, auto, unlimited = (
        ask(f"OPTIONS (max_groups_contributed = {value})").query.blocks[0].parameters
        for value in ("NULL", "auto", "unlimited")
    )
    assert null == auto != unlimited


def test_a_mechanism_can_be_forced() -> None:
    for name in ("gumbel_top_k", "gaussian_top_k", "laplace_positive_counts"):
        found = ask(f"OPTIONS (mechanism = '{name}')").plans[0]
        assert found.selection.name == name
        (chosen,) = [c for c in found.candidates if c.chosen]
        assert chosen.verdict.startswith("asked for")
    nearest = ask("OPTIONS (mechanism = 'gumbel_top_k')", mechanism="gaussian_top_k")
    assert nearest.plans[0].selection.name == "gumbel_top_k"


def test_each_select_has_options_of_its_own() -> None:
    sql = (
        "WITH a AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n "
        "FROM visits), b AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2) COUNT(*) "
        "AS n FROM visits) SELECT a.n, b.n, (SELECT COUNT(*) FROM visits) FROM a, b"
    )
    blocks = planned(sql, SCHEMA, RULES).query.blocks
    assert [b.parameters.epsilon for b in blocks] == [0.1, 0.2, RULES.defaults.epsilon]


def test_the_clause_never_reaches_an_engine() -> None:
    found = ask("OPTIONS (epsilon = 0.5, mechanism = 'gumbel_top_k')")
    for text in (found.query.tail, *found.statements):
        assert "DIFFERENTIAL" not in text.upper()
        assert "OPTIONS" not in text.upper()


def test_options_tell_questions_apart() -> None:
    texts = ["", "OPTIONS (epsilon = 0.25)", "OPTIONS (mechanism = 'laplace_positive_counts')"]
    assert len({ask(text).fingerprint for text in texts}) == 3


@pytest.mark.parametrize(
    ("options", "kind", "code"),
    [
        ("OPTIONS (epsilon = 9)", ParameterError, "parameter_out_of_range"),
        ("OPTIONS (epsilon = 0)", ParameterError, "parameter_out_of_range"),
        ("OPTIONS (epsilon = -1)", ParameterError, "parameter_out_of_range"),
        ("OPTIONS (epsilon = 1e999)", ParameterError, "parameter_not_finite"),
        ("OPTIONS (epsilon = NULL)", ParameterError, "parameter_not_number"),
        ("OPTIONS (epsilon = 'much')", ParameterError, "parameter_not_number"),
        ("OPTIONS (epsilon = TRUE)", ParameterError, "parameter_not_number"),
        ("OPTIONS (k_bar = 0)", ParameterError, "parameter_out_of_range"),
        ("OPTIONS (k_bar = 1.5)", ParameterError, "parameter_not_integer"),
        ("OPTIONS (epsilom = 1)", ParameterError, "unknown_parameter"),
        ("OPTIONS (epsilon = 1, EPSILON = 1)", QueryRefused, "option_twice"),
        ("OPTIONS (epsilon = 1 + 1)", SQLSyntaxError, "syntax_error"),
        ("OPTIONS (epsilon = sqrt(2))", QueryRefused, "bad_option"),
        ("OPTIONS (epsilon = (SELECT 1))", QueryRefused, "bad_option"),
        ("OPTIONS (epsilon = visits.n)", QueryRefused, "bad_option"),
        ("OPTIONS (mechanism = 3)", QueryRefused, "bad_option"),
        ("OPTIONS (mechanism = 'magic')", ParameterError, "unknown_mechanism"),
        ("OPTIONS (mechanism = 'known_domain')", QueryRefused, "mechanism_does_not_fit"),
        ("OPTIONS (epsilon)", SQLSyntaxError, "syntax_error"),
        ("OPTIONS (epsilon = )", SQLSyntaxError, "syntax_error"),
        ("OPTIONS", QueryRefused, ""),
        ("OPTIONS (epsilon = 1; DROP TABLE visits)", SQLSyntaxError, "syntax_error"),
    ],
)
def test_bad_options_are_refused_with_their_place(
    options: str, kind: type[Error], code: str
) -> None:
    with pytest.raises(Error) as refused:
        ask(options)
    if code:
        assert isinstance(refused.value, kind)
        assert refused.value.code == code
    if code not in ("unknown_mechanism", "mechanism_does_not_fit"):
        assert refused.value.place is not None


def test_the_clause_belongs_to_selects_over_private_tables() -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) n FROM "
        "(SELECT COUNT(*) AS n FROM visits)"
    )
    with pytest.raises(QueryRefused, match="belongs to a SELECT that reads a private table"):
        planned(sql, SCHEMA, RULES)
