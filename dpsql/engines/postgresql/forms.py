"""The node forms allowed in statements over a PostgreSQL server's rows, listed by hand.

The nodes of the server's own tree, each with all of its fields and what may stand in them, and the
functions and operators that it may call, by their names. One entry less, and something that dpsql
sends is refused: a test takes out each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Fields: TypeAlias = Mapping[str, frozenset[str] | None]
"""The fields of a node, with the values that each may have; None for anything."""
_NULL: Final = frozenset({"<>"})
_FALSE: Final = frozenset({"false"})
_NOUGHT: Final = frozenset({"0"})
_IN_RANGE: Final = frozenset({"0", "4139"})
"""How far from a row its frame ends: by rows, or by DOUBLEs, which neither overflow nor fail."""


def fields_of(anything: str, **held: frozenset[str]) -> Fields:
    """Return fields: some with anything in them, others held to values."""
    return {**dict.fromkeys(anything.split()), **held}


_OPERATOR: Final = fields_of(
    "opno opfuncid opresulttype opcollid inputcollid args location", opretset=_FALSE
)
NODES: Final[Mapping[str, Fields]] = {
    "QUERY": fields_of(
        "querySource canSetTag hasAggs hasWindowFuncs hasSubLinks hasDistinctOn cteList rtable "
        "rteperminfos jointree targetList override groupClause groupDistinct "
        "havingQual windowClause distinctClause sortClause limitOffset limitCount setOperations "
        "constraintDeps stmt_location stmt_len",
        commandType=frozenset({"1"}),  # SELECT
        utilityStmt=_NULL,
        resultRelation=_NOUGHT,
        hasTargetSRFs=frozenset({"false", "true"}),  # of what is given, over no rows
        hasRecursive=_FALSE,
        hasModifyingCTE=_FALSE,
        hasForUpdate=_FALSE,
        hasRowSecurity=_FALSE,
        isReturn=_FALSE,
        onConflict=_NULL,
        returningList=_NULL,
        limitOption=_NOUGHT,
        groupingSets=_NULL,
        rowMarks=_NULL,
        withCheckOptions=_NULL,
        mergeActionList=_NULL,
        mergeUseOuterJoin=_FALSE,  # until 16
        mergeTargetRelation=_NOUGHT,  # from 17 on
        mergeJoinCondition=_NULL,  # from 17 on
        hasGroupRTE=frozenset({"false", "true"}),  # from 18 on
        returningOldAlias=_NULL,  # from 18 on
        returningNewAlias=_NULL,  # from 18 on
    ),
    "RANGETBLENTRY": fields_of(
        "alias eref relid relkind rellockmode inh inFromCl requiredPerms checkAsUser selectedCols "
        "insertedCols updatedCols extraUpdatedCols perminfoindex subquery security_barrier ctename "
        "ctelevelsup coltypes coltypmods colcollations jointype joinmergedcols joinaliasvars "
        "joinleftcols joinrightcols join_using_alias functions groupexprs",
        # All but VALUES, XMLTABLE and triggers; from 18 on the keys of a GROUP BY are one, too.
        rtekind=frozenset({"0", "1", "2", "3", "6", "9"}),
        tablesample=_NULL,
        lateral=_FALSE,
        securityQuals=_NULL,
        self_reference=_FALSE,
        funcordinality=_FALSE,
    ),
    "RTEPERMISSIONINFO": fields_of(  # from 16 on
        "relid inh requiredPerms checkAsUser selectedCols insertedCols updatedCols"
    ),
    "RANGETBLREF": fields_of("rtindex"),
    "RANGETBLFUNCTION": fields_of(
        "funcexpr funccolcount funcparams",
        funccolnames=_NULL,
        funccoltypes=_NULL,
        funccoltypmods=_NULL,
        funccolcollations=_NULL,
    ),
    "FROMEXPR": fields_of("fromlist quals"),
    "JOINEXPR": fields_of(
        "isNatural larg rarg usingClause join_using_alias quals alias rtindex",
        jointype=frozenset({"0", "1", "3"}),  # INNER, LEFT and RIGHT
    ),
    "ALIAS": fields_of("aliasname colnames"),
    "TARGETENTRY": fields_of("expr resno resname ressortgroupref resorigtbl resorigcol resjunk"),
    "COMMONTABLEEXPR": fields_of(
        "ctename aliascolnames ctematerialized ctequery location cterefcount ctecolnames "
        "ctecoltypes ctecoltypmods ctecolcollations",
        search_clause=_NULL,
        cycle_clause=_NULL,
        cterecursive=_FALSE,
    ),
    "SETOPERATIONSTMT": fields_of(
        "all larg rarg colTypes colTypmods colCollations groupClauses",
        op=frozenset({"1", "2", "3"}),  # UNION, INTERSECT and EXCEPT
    ),
    "SORTGROUPCLAUSE": fields_of("tleSortGroupRef eqop sortop reverse_sort nulls_first hashable"),
    "WINDOWCLAUSE": fields_of(
        "name refname partitionClause orderClause frameOptions inRangeColl inRangeAsc "
        "inRangeNullsFirst winref copiedOrder startOffset endOffset",
        startInRangeFunc=_IN_RANGE,
        endInRangeFunc=_IN_RANGE,
        runCondition=_NULL,  # until 16
    ),
    "SUBLINK": fields_of(
        "subLinkId testexpr operName subselect location",
        subLinkType=frozenset({"0", "2", "4"}),  # EXISTS, ANY, and one value of one row
    ),
    "PARAM": fields_of(
        "paramid paramtype paramtypmod paramcollid location",
        paramkind=frozenset({"0", "2"}),  # of the statement, or of a subquery
    ),
    "VAR": fields_of(
        "varno varattno vartype vartypmod varcollid varnullingrels varlevelsup varnosyn "
        "varattnosyn location",
        varreturningtype=_NOUGHT,  # from 18 on
    ),
    "CONST": fields_of(
        "consttype consttypmod constcollid constlen constbyval constisnull location constvalue"
    ),
    "OPEXPR": _OPERATOR,
    "DISTINCTEXPR": _OPERATOR,
    "NULLIFEXPR": _OPERATOR,
    "SCALARARRAYOPEXPR": fields_of(
        "opno opfuncid useOr inputcollid args location", hashfuncid=_NOUGHT, negfuncid=_NOUGHT
    ),
    "FUNCEXPR": fields_of(
        "funcid funcresulttype funcretset funcformat funccollid inputcollid args location",
        funcvariadic=_FALSE,
    ),
    "AGGREF": fields_of(
        "aggfnoid aggtype aggcollid inputcollid aggtranstype aggargtypes args aggdistinct "
        "aggstar agglevelsup aggsplit aggno aggtransno location",
        aggdirectargs=_NULL,
        aggorder=_NULL,
        aggfilter=_NULL,
        aggvariadic=_FALSE,
        aggkind=frozenset({"n"}),
        aggpresorted=_FALSE,  # from 16 on
    ),
    "WINDOWFUNC": fields_of(
        "winfnoid wintype wincollid inputcollid args winref winstar winagg location",
        aggfilter=_NULL,
        runCondition=_NULL,  # from 17 on
    ),
    "BOOLEXPR": fields_of("boolop args location"),
    "NULLTEST": fields_of("arg nulltesttype location", argisrow=_FALSE),
    "BOOLEANTEST": fields_of(
        "arg location",
        booltesttype=frozenset({"0", "2"}),  # IS TRUE, IS FALSE
    ),
    "RELABELTYPE": fields_of("arg resulttype resulttypmod resultcollid relabelformat location"),
    "COERCEVIAIO": fields_of("arg resulttype resultcollid coerceformat location"),
    "COLLATEEXPR": fields_of("arg collOid location"),
    "CASEEXPR": fields_of("casetype casecollid arg args defresult location"),
    "CASEWHEN": fields_of("expr result location"),
    "CASETESTEXPR": fields_of("typeId typeMod collation"),
    "COALESCEEXPR": fields_of("coalescetype coalescecollid args location"),
    "MINMAXEXPR": fields_of("minmaxtype minmaxcollid inputcollid op args location"),
    "ROWEXPR": fields_of("args row_typeid row_format colnames location"),
    "ARRAYEXPR": fields_of(
        "array_typeid array_collid element_typeid elements multidims list_start list_end location"
    ),
}
"""What a tree may be made of. Fields that a version does not have are not there."""

CALLED: Final = frozenset(
    {"count", "sum", "min", "max", "row_number", "dense_rank", "floor", "round", "trunc"}
    | {"rank", "first_value", "lag", "lead"}
    | {"sqrt", "hashint8extended", "hash_record_extended", "unnest", "generate_series"}
    # casts
    | {"int2", "int4", "int8", "float8", "numeric", "text", "date", "timestamp"}
)
"""Functions that generated SQL is put together of."""
ON_ROWS: Final = frozenset(
    {"abs", "ceil", "sign", "exp", "ln", "log", "div", "extract", "date_trunc"}
    | {"char_length", "octet_length", "ascii", "btrim", "ltrim", "rtrim", "left", "right"}
    | {"substr", "strpos", "starts_with", "like_escape", "chr", "regexp_replace"}
    | {"replace", "split_part", "md5", "encode", "sha256", "convert_to", "substring"}
    | {"make_date", "to_char", "lower", "upper", "translate", "power", "time"}
)
"""Functions that analysts' expressions over rows are written with."""
SIGNS: Final = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "~~", "!~~"}
    | {"~", "~*", ">>", "&"}
)
"""Operators, by their names."""
