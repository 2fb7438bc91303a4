"""The codes of dpsql's errors: the class of error that carries each, and its meaning.

Codes are part of the interface: programs compare them. A new one is added here, an old one keeps
its meaning. docs/errors.md is written from this catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dpsql.errors import (
    BudgetExceeded,
    DataError,
    EngineError,
    Error,
    InterfaceError,
    InternalError,
    LedgerError,
    NotSupportedError,
    OperationalError,
    ParameterError,
    PolicyError,
    ProgrammingError,
    QueryRefused,
    SQLSyntaxError,
    UnknownName,
)


@dataclass(frozen=True, slots=True)
class Code:
    """An error code's class of error, and its meaning in a sentence."""

    kind: type[Error]
    meaning: str


# By class, those first that a statement of SQL raises. No code is in two classes.
_MEANINGS: Final[Mapping[type[Error], Mapping[str, str]]] = {
    QueryRefused: {
        "question_too_dear": "The question costs more than one question of the session may.",
        "needs_confirmation": "The price is above the one to which a person must agree.",
        "not_a_question": "A tool for questions was given a statement that is not a SELECT.",
        "no_view": "The query has no running answer: it cannot be a materialized view.",
        "view_beside_rows": "A materialized view is joined with private rows, which lie elsewhere.",
        "view_changed": "The policy or the tables are not those that a view was created under.",
        "view_not_allowed": "The account may not create or refresh materialized views.",
        "aggregate_not_supported": "An aggregate without a private version, or in a form without "
        "one.",
        "bad_bounds": "Contribution bounds that are not two numbers in order, or are given twice.",
        "bad_fraction": "A quantile of something else than one fraction between 0 and 1.",
        "bad_option": "An option of WITH DIFFERENTIAL_PRIVACY whose value is not a plain literal.",
        "bounds_do_not_apply": "Contribution bounds, or an error, for an aggregate that has no use "
        "for them.",
        "bounds_not_private": "Contribution bounds, or an error, on an aggregate over released "
        "rows.",
        "bounds_too_large": "Bounds so wide, or per row and per group so far apart, that noise in "
        "proportion would be useless, or sums of many rows no integers of the engine.",
        "bounds_too_small": "Bounds so close to zero that computers tell the values apart no more.",
        "enum_order": "Values of an ENUM are compared by their order, which is not public.",
        "groups_not_public": "Public groups are asked for, of keys that have to be discovered.",
        "several_rows": "A subquery that stands for one value has several rows, or columns.",
        "can_fail": "A function that could fail on a row, with arguments of these types: that it "
        "did would tell that there is such a row.",
        "clause_not_allowed": "A clause that picks private rows by looking at other people's.",
        "column_not_grouped": "A column that is neither a key nor inside an aggregate would "
        "release values of single rows.",
        "constant_fails": "A constant that cannot be what is needed in its place: `'x'::DATE`.",
        "constant_key": "A GROUP BY key that is the same for all rows.",
        "no_group_left": "Conditions on a key that none of its declared values satisfies.",
        "does_not_bind": "Types or names that do not fit, found on empty tables.",
        "domain_too_large": "Declared keys are all answered, and there would be too many of them.",
        "empty_group_by": "GROUP BY without a key.",
        "explain_analyze": "A plan with measured times would read private rows.",
        "expression_not_allowed": "An expression over private rows that is not on the list of "
        "deterministic functions of one row, or not in its plain form.",
        "fails": "A part of the query that failed when it was tried on made-up rows, before any "
        "row of the data was read.",
        "function_not_allowed": "A function that reaches beyond its arguments.",
        "group_by_form": "A form of GROUP BY without a private version.",
        "groups_by_unit": "Groups of one privacy unit each would name it.",
        "join_column": "USING or NATURAL with a column that is not once on both sides.",
        "join_keeps_public": "An outer join that keeps rows which belong to no privacy unit.",
        "join_kind": "A join that pairs rows by their order or nearness, which other rows decide.",
        "join_needs_unit": "A join of private tables that would pair rows of different people.",
        "join_not_supported": "A join of private rows with something that is not a table.",
        "join_units_differ": "A join of tables that protect different privacy units.",
        "key_type": "Keys of a type whose equal values can look different.",
        "mechanism_does_not_fit": "The mechanism asked for by name cannot answer this shape of "
        "query.",
        "mechanism_needs_basic": "A mechanism for single publications, in an account under zCDP.",
        "misplaced_aggregate": "An aggregate where a value of one row is needed.",
        "no_mechanism": "No mechanism can answer the query with these parameters; the reason says "
        "why.",
        "no_noise_known": "DP_INTERVAL_LOW and the like of something that is no aggregate as "
        "released.",
        "not_a_query": "Another kind of statement: data definition, settings, files, transactions.",
        "not_numeric": "A sum of something that is not a number.",
        "not_understood": "A call that the parser of SQL cannot make sense of.",
        "nothing_released": "A question for stored releases alone (`answer_from = released`) where "
        "no release of the account answers it.",
        "number_too_long": "A number with more digits than the engine compares without an error.",
        "option_twice": "An option of WITH DIFFERENTIAL_PRIVACY that is given twice.",
        "options_not_private": "WITH DIFFERENTIAL_PRIVACY on a SELECT over released rows.",
        "order_not_selected": "ROLLUP and the like, sorted by something that is not selected.",
        "pivot_not_public": "PIVOT without a list of values: its columns would follow from rows.",
        "query_too_deep": "Brackets or operators nested so deeply that reading them is not safe.",
        "query_too_large": "Very many parts, or aliases or joins that stand for very many.",
        "query_too_long": "A text so long that reading it is not safe.",
        "raw_rows": "Rows, or values of single rows, of a private table.",
        "recursive_name": "A recursive CTE named like a table: parts of it would mean the table.",
        "reserved_name": "A name that dpsql uses for itself.",
        "set_operation_mixed": "UNION and the like of private rows with anything else.",
        "set_operation_types": "UNION and the like of columns whose types differ.",
        "set_operation_unit": "UNION, EXCEPT and INTERSECT that would compare different people's "
        "rows.",
        "several_statements": "More than one statement in a text.",
        "statement_not_allowed": "Something other than a query inside a query.",
        "subquery_over_private_rows": "A condition on private rows that depends on a number or "
        "on groups computed of other private rows.",
        "sample_not_available": "A sample of private rows that is no share of the privacy units.",
        "table_form_not_allowed": "A private table with a version, or a PIVOT in a condition.",
        "table_function": "A function in FROM that could read files, catalogs or settings.",
        "tail_too_large": "Constants, or columns repeated in each other, that take more memory or "
        "time than there is.",
        "text_compared": "A text beside a number, a date or a truth value: the engine would read "
        "each text as one, and fail at the first that is none.",
        "too_many_aliases": "More names for columns than there are columns.",
        "too_many_grouping_sets": "ROLLUP, CUBE or GROUPING SETS that stand for very many answers.",
        "too_many_relations": "More private tables joined than `limits.private_relations` allows.",
        "unbounded_sum": "A sum of values without bounds, at a price at which none can be "
        "found first.",
        "unit_row_repeats": "Rows among which a row that is a privacy unit could stand twice.",
        "unknown_bounds": "A named argument of an aggregate that is not a contribution bound.",
        "error_not_public": "A maximum error of something whose error depends on what is released: "
        "averages, spreads, quantiles, keys alone, and whatever is counted under `auto`.",
        "max_error_too_small": "A maximum error that no epsilon within the limits keeps.",
        "unknown_ordinal": "A GROUP BY position outside the select list.",
        "unknown_qualifier": "A name before `.*` that no table of the FROM clause has.",
        "window_over_private_rows": "A window function over private rows: it looks at other rows.",
    },
    SQLSyntaxError: {
        "syntax_error": "Text that cannot be read as SQL, or a misspelt statement of dpsql's own."
    },
    UnknownName: {
        "unknown_tool": "There is no tool of that name.",
        "unknown_release": "The run keeps no answer of that id; asked again, it is free.",
        "unknown_view": "There is no materialized view of that name.",
        "ambiguous_column": "A name that several joined tables have as a column.",
        "unknown_account": "A name that is no account of the policy.",
        "unknown_column": "A column that the tables in reach do not have.",
        "unknown_table": "A table that the policy does not list, whether it exists or not.",
    },
    BudgetExceeded: {
        "budget_exceeded": "The account, or the total of all, cannot pay the worst case."
    },
    DataError: {"tail_failed": "The part over released rows failed. The release was paid for."},
    EngineError: {
        "engine_failed": "The engine failed; its message is withheld, as it may quote data. The "
        "account is suspended until the owner has looked.",
        "interrupted": "The caller ended the query; what it reserved stays spent.",
        "state_behind": "The private state of a view lacks what the view has published.",
        "state_busy": "Somebody else has the private state of a view open.",
        "state_damaged": "The private state of a view is damaged.",
        "state_in_the_way": "The private state of a new view cannot be made in its place.",
        "state_missing": "The private state of a view is not where it was made.",
        "state_of_another": "The private state in a view's place belongs to another view.",
        "state_of_another_version": "The private state of a view was written by another version of "
        "dpsql, whose noise is drawn otherwise.",
        "memory_limit": "The query took more memory than there is for it. By the policy, the "
        "account is suspended.",
        "time_limit": "The query took longer than the policy lets one. By the policy, the account "
        "is suspended.",
        "statement_timeout": "The statement took longer than the timeout that its client gave it. "
        "The hint says what it has spent: nothing, unless its rows were being read.",
    },
    InterfaceError: {
        "token_not_private": "Others may read the file with the token for a server.",
        "token_missing": "A server over HTTP is to be asked without a token.",
        "bad_request": "A request over HTTP that cannot be read, or has fields that it may not.",
        "body_too_large": "The body of a request over HTTP is too large.",
        "method_not_allowed": "A route of the server does not take this method of HTTP.",
        "not_acceptable": "A request over HTTP accepts no format that answers have.",
        "not_json": "The body of a request over HTTP is not said to be JSON.",
        "nothing_to_set": "SET or RESET over HTTP, in a request that names no session.",
        "policies_changed": "Policies that an owner sends follow others than are served.",
        "query_running": "A query with the id that a request over HTTP chose still runs.",
        "request_decided": "An owner has decided on a request for more budget before.",
        "too_many_requests": "A user of a server has asked for more budget too often.",
        "unknown_request": "A server has no request for more budget of this number.",
        "too_slow": "The body of a request over HTTP came too slowly.",
        "query_not_running": "No query runs with the id that was to be cancelled.",
        "unknown_route": "The server has no such route of HTTP.",
        "wrong_host": "A request over HTTP is for another host than the server's.",
        "audit_altered": "Lines of a server's audit log were changed, left out or cut off.",
        "audit_unusable": "The file for a server's audit log is another one, in use or not "
        "private.",
        "bad_address": "An address on which a server cannot listen.",
        "bad_sign_on": "The settings of a server for the tokens of another issuer are not whole.",
        "bad_certificate": "A certificate or key of a server that cannot be used.",
        "plaintext_refused": "A server would be reached by other machines without encryption.",
        "unknown_dataset": "A client of a server asks for a dataset that it does not have.",
        "cancelled": "The call was cancelled before it had begun to read.",
        "no_step_closed": "No further step of a view has closed: there is nothing to publish.",
        "state_not_placed": "It is not said where the private state of views is kept.",
        "view_full": "All steps of a view are used.",
        "view_of_another": "A shared view is refreshed and dropped by the account that created it.",
        "address_unknown": "An address that is none of files of data which dpsql reads.",
        "answer_too_large": "An answer of too many values to hold as Python objects; arrow() reads "
        "it.",
        "bad_setting": "A value that a setting of the shell does not take.",
        "closed": "The cursor or the connection is closed.",
        "connection_busy": "A statement inside of another one of the same connection and thread.",
        "config_syntax": "The settings file is not TOML.",
        "config_unknown_key": "The settings file names something that is no setting, or not in its "
        "table.",
        "config_unknown_profile": "A profile that the settings file does not have.",
        "config_unreadable": "The settings file is missing or cannot be read.",
        "config_wrong_type": "The settings file gives a setting a value of another kind than it "
        "takes.",
        "database_locked": "Another connection has the database open for writing.",
        "database_missing": "There is no database at the path; dpsql never creates what it "
        "protects.",
        "definitions_changed": "A table of the policy on a server is not made of what it was when "
        "the database was opened. Nobody gets an answer from it until it is opened again.",
        "database_unreadable": "The file is no DuckDB database that this version opens, or this "
        "user may not read it.",
        "demo_database": "The file where the demo keeps its database is another one.",
        "directory_not_writable": "The demo cannot write to its directory, or remove what it left "
        "there.",
        "engine_in_use": "A table registered on an engine that has a file, or has been connected "
        "to.",
        "engine_not_surveyed": "A version of DuckDB, PostgreSQL or Spark of which it is not known "
        "what its functions compute, and which of them can fail on data.",
        "extension_missing": "An extension of DuckDB that reads files of the network, or lakes, is "
        "not installed.",
        "file_exists": "A file to be written exists already.",
        "file_in_use": "Answers written over a database, its policies, its ledger or the settings.",
        "file_kinds": "Files that are no one table: of several kinds, too many, with names that "
        "are patterns, or parts of a lake.",
        "file_unproved": "Files that `dpsql check` has not read whole, or that have changed since.",
        "files_changed": "Files that were written, replaced or removed since the "
        "connection was opened.",
        "file_missing": "A file to be read does not exist.",
        "file_not_readable": "A file of heads of the ledger cannot be read as text.",
        "file_not_writable": "A file cannot be written, or is no file.",
        "file_unreadable": "A file of statements cannot be read.",
        "ledger_not_given": "It is not said where the ledger is, and an engine has no file to put "
        "one beside.",
        "memory_too_small": "The database alone takes more memory than the policy's limit.",
        "missing_package": "An optional package that this needs is not installed; the hint says "
        "how to.",
        "no_frame_type": "A data frame that cannot hold the values of some column; fetchall() "
        "reads the answer.",
        "no_ledger": "A question asked of a connection without a ledger, which can only explain.",
        "no_python_value": "Values that Python cannot hold; arrow() reads them.",
        "package_incompatible": "A package that is installed here keeps dpsql from working; the "
        "hint says which to uninstall.",
        "not_connected": "The notebook asks before `%dpsql connect`.",
        "not_pickled": "An answer with a type whose values no text stands for, as UNION, cannot go "
        "to another process.",
        "nothing_to_run": "\\g in the shell, before any query.",
        "nothing_to_explain": "\\explain in the shell, without a query.",
        "nothing_to_write": "\\copy, \\w or \\save in the shell, before any query.",
        "unknown_ending": "\\copy in the shell, to a file whose name does not say how to write it.",
        "unknown_query": "A name under which the shell has no saved query.",
        "bad_query_name": "A name that \\save in the shell cannot keep a query under.",
        "nothing_to_plot": "\\plot in the shell, without an answer or with columns that it does "
        "not have.",
        "nothing_to_tune": "A question without left-out estimates to compare its bounds by, or of "
        "more than one private block.",
        "script_failed": "A file of statements was not run to its end. What came before is paid "
        "for.",
        "proof_not_kept": "Which files were read whole cannot be written to its directory.",
        "secret_unknown": "A secret for files of the network that DuckDB does not take.",
        "survey_not_kept": "What was found of the engine's functions cannot be written to its "
        "directory.",
        "table_unreadable": "A table registered on an engine that DuckDB cannot load.",
        "too_many_files": "Files of statements include one another too deeply, or themselves.",
        "unfinished_statement": "A command of the shell amid a statement without a semicolon.",
        "unknown_command": "A command that the shell does not have.",
        "unknown_setting": "A setting that the shell does not have.",
        "unknown_topic": "A topic that the shell has no help on.",
        "server_privileges": "The role that dpsql connects to a server as may do more than read, "
        "or may not do what is needed.",
        "server_unreachable": "A database server that does not answer, or refuses the connection.",
        "server_unsupported": "A database server of a kind, version or encoding that dpsql does "
        "not ask.",
        "bad_verifier": "What is stored of a user's password for SCRAM is not in its form.",
        "password_unreadable": "A password to be read from a file or from standard input is not "
        "there.",
        "token_exists": "The user of a server has a valid token of this name.",
        "unknown_token": "The user of a server has no token of this name.",
        "unknown_user": "The server has no user of this name.",
        "user_exists": "The server has a user of this name, or of one that looks the same.",
        "users_altered": "The file of a server's users is damaged, or was altered by something "
        "else than dpsql.",
        "users_busy": "Another process kept the file of a server's users locked for too long.",
        "users_foreign": "The file is none of a server's users.",
        "users_missing": "There is no file of a server's users at the path.",
        "users_not_private": "Others than its owner may read or write the file of a server's "
        "users.",
        "users_not_written": "The file of a server's users cannot be written or read where it is.",
        "users_version": "The file of a server's users is of a version that this dpsql does not "
        "read.",
        "view_unreadable": "A view that fails, or reads files which its engine no longer reaches.",
    },
    InternalError: {
        "internal_error": "A fault in the server. Its log has more under the number that is told.",
        "not_tried": "There are no made-up rows to try a query on. What is not tried is refused, "
        "however often it is asked; nothing was spent.",
        "statement_unrecognised": "The engine's own plan of the generated SQL is none that "
        "dpsql sends.",
        "not_locked": "The engine does not take the settings that keep it away from files and "
        "networks.",
        "rows_out_of_order": "Rows of a set union that are not sorted by unit and item, each once.",
        "unforeseen": "A failure of dpsql itself in the shell; its text is withheld, as it may "
        "quote data.",
        "unit_not_bounded": "A privacy unit with more items in a set union than its bound.",
    },
    LedgerError: {
        "account_renamed": "The owner gave the account another name, and this one is closed.",
        "account_suspended": "A failure suspended the account: only questions that were answered "
        "before are, until the owner reopens it.",
        "ledger_account_exists": "The account to be created is in the ledger.",
        "ledger_busy": "Another process or thread kept the ledger locked for too long.",
        "ledger_cannot_create": "The ledger cannot be written where it is to be.",
        "ledger_cannot_open": "The ledger's file cannot be opened, or its server not be reached.",
        "ledger_clock": "The clock is before the time of the ledger's last event.",
        "ledger_closed": "The ledger is closed.",
        "ledger_corrupt": "The ledger is damaged, or was altered by something else than dpsql: it "
        "is to be restored from a backup.",
        "ledger_delta_refund": "A charge settled at another delta than was reserved, which is "
        "never refunded.",
        "ledger_disk_full": "No space is left to record what a query costs: none runs.",
        "ledger_failed": "The ledger refused the operation for a reason that has no code of its "
        "own.",
        "ledger_failed_entry": "A charge settled that stays whole, as its query failed.",
        "ledger_foreign": "The file or the database's schema is not a ledger of dpsql's.",
        "ledger_forked": "The process was forked while it held the ledger open.",
        "ledger_io_error": "The ledger's disk failed while reading or writing.",
        "ledger_linked": "The ledger's file has a second name: a hard link.",
        "ledger_missing": "There is no ledger, or it was moved, deleted or replaced while it was "
        "open.",
        "ledger_name_taken": "An account is renamed to what another one is or was called.",
        "ledger_not_a_file": "The ledger's path is a directory, or something else that is no file.",
        "ledger_not_picklable": "An open ledger cannot be copied or sent to another process; its "
        "place can.",
        "ledger_not_suspended": "The account to be reopened is not suspended.",
        "policies_give_less": "The policies give an account less than a request for more budget "
        "asks for.",
        "ledger_other_composition": "The account was charged under another composition than it is "
        "given now.",
        "ledger_over_limit": "A limit was lowered below what counts in the present window, "
        "so that its views publish nothing in it.",
        "ledger_over_reserved": "A charge settled at more than was reserved.",
        "ledger_overflow": "The account has spent more than can be counted.",
        "ledger_read_only": "The ledger may be read, not written, by this user or role or at this "
        "server.",
        "ledger_settled_twice": "A charge settled that is settled already.",
        "ledger_step_beyond": "The stream has no step of this number: it was paid for fewer.",
        "ledger_step_ended": "The step of the stream was published or failed before, or a later "
        "one was published.",
        "ledger_step_used": "The step of the stream was begun before, or one after it: each has "
        "one answer.",
        "ledger_stream_exists": "The account has a stream of this name, or the ledger one of this "
        "id.",
        "ledger_unknown_entry": "A charge settled that this ledger never reserved.",
        "ledger_unknown_stream": "The account has no such stream, has dropped it, or has begun no "
        "such step of it.",
        "ledger_unsupported": "SQLite, the file system or the server lacks something the ledger "
        "needs to be safe.",
        "ledger_version": "The ledger is of another version, which this dpsql does not read.",
    },
    NotSupportedError: {
        "catalog_query": "A query of a tool over PostgreSQL's catalogs that a server does not "
        "answer, or one over catalogs and tables at once.",
        "executemany": "It would pay for every answer and show only the last.",
        "not_allowed": "The program that opened the session does not let it do this.",
        "protection_changed": "Policies that came over the network would protect otherwise.",
    },
    OperationalError: {
        "audit_not_written": "The audit log of a server cannot be written, so nothing is asked.",
        "policies_not_written": "A server cannot write its policies file.",
        "bad_reply": "What answers at the address of a server is none, or of another version.",
        "server_not_reached": "A server over HTTP did not answer, or its certificate is not "
        "trusted.",
        "sign_on_unavailable": "A server has no keys now to check the token of another issuer.",
        "server_busy": "The server has no room for another statement: ask again later.",
        "login_failed": "A login at a server failed: name, password, token or their exchange were "
        "wrong, or too many failed before. It says no more to anybody.",
        "set_union_too_large": "More privacy units or keys than a set union takes.",
    },
    ParameterError: {
        "bad_arguments": "An argument of a tool is missing, unknown, or of another type.",
        "epsilon_and_max_error": "An epsilon and a maximum error in one place: each decides the "
        "other.",
        "bad_period": "A length of time is not one, such as '1 day'.",
        "bad_steps": "A view cannot have so many steps, or steps like these.",
        "bad_time": "A time is not one, such as '2026-01-01 06:00'.",
        "bad_view_option": "An option of a view has a value that it cannot have.",
        "bad_window": "The window of a view is no whole number of its steps.",
        "name_taken": "A view would have the name of a table.",
        "unknown_factorisation": "There is no factorisation or mechanism of views of that name.",
        "unknown_zone": "There is no time zone of that name.",
        "view_option_missing": "A view lacks an option that it needs.",
        "view_option_unknown": "A view has no option of that name.",
        "bad_expiry": "A token would have expired before it was issued.",
        "bad_iterations": "A number of iterations that verifiers of passwords cannot have.",
        "bad_password": "A password that is too short, too long, or the user's name.",
        "bad_scope": "Roles, accounts or scopes that do not belong together, or that a user does "
        "not have.",
        "bad_user_name": "A name that a server's user or token cannot have.",
        "bad_limit": "A selection of a negative number of places.",
        "bad_offsets": "Offsets of a selection that are not one finite number per score.",
        "bad_parameter": "A number out of range, given to the ledger or to `dpsql calibrate`.",
        "bad_probability": "A probability or delta that is not between 0 and 1, or 1/2 where that "
        "is the limit.",
        "bad_sensitivity": "A sensitivity that is negative, not finite, or not whole where it must "
        "be.",
        "bad_value": "A query parameter's value that cannot be written in SQL, or too much text.",
        "column_not_in_answer": "A column to be shown or drawn that the answer does not have.",
        "column_not_numeric": "A column to be drawn that does not hold numbers.",
        "confidence_out_of_range": "A confidence that is not between 0 and 1, or too near to 1.",
        "draft_unclear": "What `dpsql init` is told does not fit the database, or contradicts "
        "itself.",
        "epsilon_range": "An epsilon beyond those that the analysis holds for.",
        "needless_cap": "k_bar to be chosen although the units' groups are capped.",
        "no_fixed_weights": "Weights asked for in advance of a set union whose policy lets the "
        "data decide them.",
        "noise_scale": "Noise too small or too large for its analysis to hold, or to be of use.",
        "not_axes": "Something to draw on that is no Axes of matplotlib.",
        "not_positive": "A number given to a mechanism that must be positive, or at least 1.",
        "no_such_row": "A row of an answer by a number that it does not have.",
        "nothing_to_draw": "An answer without a column of numbers.",
        "options_do_not_fit": "Options of `dpsql calibrate` that exclude one another, or lack one "
        "that they need.",
        "parameter_not_a_choice": "A word that contribution_bounding, combine or answer_from does "
        "not know.",
        "parameter_not_finite": "A privacy parameter that is infinite or not a number.",
        "parameter_not_integer": "A privacy parameter that must be a whole number.",
        "parameter_not_number": "A privacy parameter that must be a number.",
        "parameter_out_of_range": "A privacy parameter outside dpsql's own limits or those of the "
        "policy.",
        "too_many_choices": "A range of k_bar wider than the analysis of its choice.",
        "unknown_mechanism": "A name that is no mechanism.",
        "unknown_parameter": "A name that is no privacy parameter.",
    },
    PolicyError: {
        "policy_does_not_fit": "The policies file and the database do not agree.",
        "policy_empty": "The policies file is empty.",
        "policy_invalid": "The policies file says something that is not allowed.",
        "policy_not_utf8": "The policies file is not UTF-8 text.",
        "policy_syntax": "The policies file is not YAML, or not in the expected form.",
        "policy_too_large": "The policies file is longer, or has more parts, than dpsql reads.",
        "policy_unreadable": "The policies file is missing or cannot be read.",
    },
    ProgrammingError: {
        "arguments_not_taken": "Values or privacy parameters for a statement that takes none.",
        "bad_size": "fetchmany of a number of rows that is negative or not whole.",
        "bad_values": "Query parameters that are neither a sequence nor a mapping.",
        "no_answer": "Rows fetched before a query, or after one that failed.",
        "parameter_missing": "A query parameter without a value.",
        "parameter_styles_mixed": "`?` together with named or numbered parameters.",
        "parameter_unused": "Values for more parameters than the query has.",
        "too_many_values": "More values of parameters than a query takes.",
    },
}

CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        code: Code(kind, meaning)
        for kind, meanings in _MEANINGS.items()
        for code, meaning in meanings.items()
    }
)
