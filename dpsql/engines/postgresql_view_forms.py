"""What a view of the owner's may be made of on PostgreSQL: nodes with their fields, by hand.

An owner's view is SQL that runs inside every statement over it. The server keeps the tree that it
has made of it. Every node of that tree is to be here, with all of its fields and what may stand in
them; every function and aggregate with the types that it is called for. What is listed has a value
for whatever rows there are, as each was tried on the extremes of its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Fields: TypeAlias = Mapping[str, frozenset[str] | None]
"""The fields of a node, with the values that each may have; None for anything."""
_NULL: Final = frozenset({"<>"})
_FALSE: Final = frozenset({"false"})
_NOUGHT: Final = frozenset({"0"})


def _fields(anything: str, **held: frozenset[str]) -> Fields:
    """Return fields: some with anything in them, others held to values."""
    return {**dict.fromkeys(anything.split()), **held}


_OPERATOR: Final = _fields(
    "opno opfuncid opresulttype opcollid inputcollid args location", opretset=_FALSE
)
VIEW_NODES: Final[Mapping[str, Fields]] = {
    "QUERY": _fields(
        "querySource canSetTag hasAggs hasWindowFuncs hasSubLinks hasDistinctOn cteList rtable "
        "rteperminfos jointree targetList override groupClause groupDistinct groupingSets "
        "havingQual windowClause distinctClause sortClause limitOffset limitCount setOperations "
        "constraintDeps stmt_location stmt_len",
        commandType=frozenset({"1"}),  # SELECT
        utilityStmt=_NULL,
        resultRelation=_NOUGHT,
        hasTargetSRFs=_FALSE,
        hasRecursive=_FALSE,
        hasModifyingCTE=_FALSE,
        hasForUpdate=_FALSE,
        hasRowSecurity=_FALSE,
        isReturn=_FALSE,
        onConflict=_NULL,
        returningList=_NULL,
        limitOption=_NOUGHT,
        rowMarks=_NULL,
        withCheckOptions=_NULL,
        mergeActionList=_NULL,
        mergeUseOuterJoin=_FALSE,  # until 16
        mergeTargetRelation=_NOUGHT,  # from 17 on
        mergeJoinCondition=_NULL,  # from 17 on
    ),
    "RANGETBLENTRY": _fields(
        "alias eref relid relkind rellockmode inh inFromCl requiredPerms checkAsUser selectedCols "
        "insertedCols updatedCols extraUpdatedCols perminfoindex subquery security_barrier ctename "
        "ctelevelsup coltypes coltypmods colcollations jointype joinmergedcols joinaliasvars "
        "joinleftcols joinrightcols join_using_alias values_lists functions",
        rtekind=frozenset({"0", "1", "2", "3", "5", "6"}),  # all but XMLTABLE and triggers
        tablesample=_NULL,
        lateral=_FALSE,
        securityQuals=_NULL,
        self_reference=_FALSE,
        funcordinality=_FALSE,
    ),
    "RTEPERMISSIONINFO": _fields(  # from 16 on
        "relid inh requiredPerms checkAsUser selectedCols insertedCols updatedCols"
    ),
    "RANGETBLREF": _fields("rtindex"),
    "RANGETBLFUNCTION": _fields(
        "funcexpr funccolcount funcparams",
        funccolnames=_NULL,
        funccoltypes=_NULL,
        funccoltypmods=_NULL,
        funccolcollations=_NULL,
    ),
    "FROMEXPR": _fields("fromlist quals"),
    "JOINEXPR": _fields(
        "isNatural larg rarg usingClause join_using_alias quals alias rtindex",
        jointype=frozenset({"0", "1", "2", "3"}),  # INNER, LEFT, FULL and RIGHT
    ),
    "ALIAS": _fields("aliasname colnames"),
    "TARGETENTRY": _fields("expr resno resname ressortgroupref resorigtbl resorigcol resjunk"),
    "COMMONTABLEEXPR": _fields(
        "ctename aliascolnames ctematerialized ctequery location cterefcount ctecolnames "
        "ctecoltypes ctecoltypmods ctecolcollations",
        search_clause=_NULL,
        cycle_clause=_NULL,
        cterecursive=_FALSE,
    ),
    "SETOPERATIONSTMT": _fields(
        "all larg rarg colTypes colTypmods colCollations groupClauses",
        op=frozenset({"1", "2", "3"}),  # UNION, INTERSECT and EXCEPT
    ),
    "SORTGROUPCLAUSE": _fields("tleSortGroupRef eqop sortop reverse_sort nulls_first hashable"),
    "GROUPINGSET": _fields("kind content location"),
    "WINDOWCLAUSE": _fields(
        "name refname partitionClause orderClause frameOptions inRangeColl inRangeAsc "
        "inRangeNullsFirst winref copiedOrder",
        startOffset=_NULL,
        endOffset=_NULL,
        startInRangeFunc=_NOUGHT,
        endInRangeFunc=_NOUGHT,
        runCondition=_NULL,  # until 16
    ),
    "SUBLINK": _fields(
        "subLinkId testexpr operName subselect location",
        subLinkType=frozenset({"0", "2", "4"}),  # EXISTS, ANY, and one value of one row
    ),
    "PARAM": _fields(
        "paramid paramtype paramtypmod paramcollid location",
        paramkind=frozenset({"2"}),  # of a subquery
    ),
    "VAR": _fields(
        "varno varattno vartype vartypmod varcollid varnullingrels varlevelsup varnosyn "
        "varattnosyn location"
    ),
    "CONST": _fields(
        "consttype consttypmod constcollid constlen constbyval constisnull location constvalue"
    ),
    "OPEXPR": _OPERATOR,
    "DISTINCTEXPR": _OPERATOR,
    "NULLIFEXPR": _OPERATOR,
    "SCALARARRAYOPEXPR": _fields(
        "opno opfuncid useOr inputcollid args location", hashfuncid=_NOUGHT, negfuncid=_NOUGHT
    ),
    "FUNCEXPR": _fields(
        "funcid funcresulttype funcretset funcformat funccollid inputcollid args location",
        funcvariadic=_FALSE,
    ),
    "AGGREF": _fields(
        "aggfnoid aggtype aggcollid inputcollid aggtranstype aggargtypes args aggdistinct "
        "aggfilter aggstar agglevelsup aggsplit aggno aggtransno location",
        aggdirectargs=_NULL,
        aggorder=_NULL,
        aggvariadic=_FALSE,
        aggkind=frozenset({"n"}),
    ),
    "WINDOWFUNC": _fields(
        "winfnoid wintype wincollid inputcollid args aggfilter winref winstar winagg location",
        runCondition=_NULL,  # from 17 on
    ),
    "BOOLEXPR": _fields("boolop args location"),
    "NULLTEST": _fields("arg nulltesttype location", argisrow=_FALSE),
    "BOOLEANTEST": _fields("arg booltesttype location"),
    "RELABELTYPE": _fields("arg resulttype resulttypmod resultcollid relabelformat location"),
    "COERCEVIAIO": _fields("arg resulttype resultcollid coerceformat location"),
    "COLLATEEXPR": _fields("arg collOid location"),
    "CASEEXPR": _fields("casetype casecollid arg args defresult location"),
    "CASEWHEN": _fields("expr result location"),
    "CASETESTEXPR": _fields("typeId typeMod collation"),
    "COALESCEEXPR": _fields("coalescetype coalescecollid args location"),
    "MINMAXEXPR": _fields("minmaxtype minmaxcollid inputcollid op args location"),
    "ARRAYEXPR": _fields(
        "array_typeid array_collid element_typeid elements multidims list_start list_end location"
    ),
}
"""What the tree of a view may be made of. Fields that a version does not have are not there."""

TOTAL_FUNCTIONS: Final = frozenset(
    # casts to wider types
    {"int4(smallint)", "int8(smallint)", "int8(integer)"}
    | {f"numeric({kind})" for kind in ("smallint", "integer", "bigint")}
    | {f"float4({kind})" for kind in ("smallint", "integer", "bigint")}
    | {f"float8({kind})" for kind in ("smallint", "integer", "bigint", "real")}
    | {"int4(boolean)", "bool(integer)", "text(boolean)"}
    | {"date(timestamp without time zone)", "time(timestamp without time zone)"}
    # lengths
    | {"length(text)", "char_length(text)", "octet_length(text)"}
)
"""Functions that have a value, and the same one each time, for all values of these types."""

TOTAL_AGGREGATES: Final = frozenset(
    {'count("any")', "count()"}
    | {f"{name}(boolean)" for name in ("bool_and", "bool_or", "every")}
    | {f"sum({kind})" for kind in ("smallint", "integer", "bigint")}
    | {"sum(numeric)"}  # of columns that are declared with their digits
    | {
        f"{name}({kind})"
        for name in ("min", "max")
        for kind in (
            *("smallint", "integer", "bigint", "real", "double precision", "numeric", "text"),
            *("date", "time without time zone", "timestamp without time zone"),
            "timestamp with time zone",
        )
    }
)
"""Aggregates that have a value for whatever rows there are."""

TOTAL_WINDOWS: Final = frozenset({"row_number()", "rank()", "dense_rank()"})
"""Window functions that have a value for whatever rows there are, beside aggregates."""

COUNTING: Final = frozenset(
    {"generate_series(integer, integer)", "generate_series(bigint, bigint)"}
)
"""Functions that may make rows in a FROM clause, of constants."""

EXTRACTED: Final[Mapping[str, frozenset[str]]] = {
    "extract(text, date)": frozenset(
        {"day", "dow", "doy", "isodow", "isoyear", "month", "quarter", "week", "year"}
    ),
    "extract(text, timestamp without time zone)": frozenset(
        {"day", "dow", "doy", "isodow", "isoyear", "month", "quarter", "week", "year"}
        | {"hour", "minute", "second"}
    ),
}
"""Functions of parts of moments, with the parts that may be asked for: others always fail."""

SINGLE: Final = frozenset(
    {"bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar"}
    | {"bpchar", "name", "bytea", "uuid", "date", "time", "timestamp", "timestamptz", "interval"}
)
"""Types of single values. Each two compare whatever they are, under one collation."""

WRITTEN: Final = frozenset(
    {"int2", "int4", "int8", "float4", "float8", "numeric", "uuid", "date", "time", "timestamp"}
)
"""Types of which every value can be written as a text, the same each time."""
