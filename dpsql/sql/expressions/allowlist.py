"""What may stand around and in expressions over private rows, beside nodes: types, and functions.

Everything that is allowed (:mod:`dpsql.syntax.row_nodes` has the nodes) is deterministic, reads
one row only, and either cannot fail or fails in a way that ``TRY`` turns into NULL. Whatever is not
listed is refused, so a construct that a newer engine learns is closed until somebody has looked.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.wordlists import words
from dpsql.syntax.row_nodes import nodes_named

# Casts to these types only: no nested types, no enumerations, no user-defined types.
CAST_TYPES = frozenset(
    exp.DType[name]
    for name in words(
        """
        BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT INT SMALLINT TEXT TIME TIMESTAMP
        TIMESTAMPNTZ TIMESTAMPTZ TINYINT UBIGINT UINT USMALLINT UTINYINT VARCHAR
        """
    )
)

# Statement-level nodes that may stand anywhere outside a private block. The tail runs on released
# rows alone, so its expressions are free; what changes state or reaches outside is not.
TAIL_FORBIDDEN: Final = nodes_named(
    """
    DDL DML Command Set Pragma Use Attach Detach Copy Drop Describe Into Block Transaction
    Commit Rollback Placeholder Parameter
    """
)

# Functions that read or change the engine's own state, files or time rather than their arguments,
# or plan SQL that is given as a text, by which all of these would be reached.
TAIL_FORBIDDEN_FUNCTIONS = frozenset(
    words(
        """
        current_connection_id current_query current_query_id current_setting
        current_transaction_id currval error getenv getvariable json_serialize_plan nextval
        pg_sleep query query_table read_blob read_csv read_csv_auto read_json read_json_auto
        read_parquet read_text set_config setval sleep sleep_ms stats txid_current
        vector_type write_log
        """
    )
)
