"""What the SQL Server source and sink promise, as plain data for planning. Wire-tested against a TDS double."""

from __future__ import annotations

from typing import Final

from dpone_core.declared.functions import mssql as names
from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    Finaliser,
    SinkTraits,
    SourceTraits,
    SqlNames,
    SqlSyntax,
    SqlTraits,
    words,
)
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

_DELIVERY: Final = (
    "one publication per load id: its marker is written in the same transaction and looked at before any repetition"
)
_ALTER: Final = "the login may alter the target"
_STATEMENT_WORDS: Final = words(
    """
    ADD ALTER BACKUP BEGIN BREAK BULK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE DECLARE DELETE DENY
    DISABLE DROP DUMP ENABLE END EXEC EXECUTE FETCH GET GO GOTO GRANT IF INSERT KILL LOAD MERGE OPEN PRINT RAISERROR
    READTEXT RECEIVE RECONFIGURE RESTORE RETURN REVERT REVOKE ROLLBACK SAVE SEND SET SETUSER SHUTDOWN THROW TRUNCATE
    UPDATE UPDATETEXT USE WAITFOR WHILE WRITETEXT
    """
)
"""T-SQL runs a second statement without any separator: `SELECT a FROM t RECONFIGURE` is two."""


def _finaliser(strategy: StrategyMode, name: str, atomic_for: str, *assumes: str) -> Finaliser:
    return Finaliser(
        strategy=strategy,
        name=name,
        atomic_for=atomic_for,
        delivery=_DELIVERY,
        retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
        assumes=(_ALTER, *assumes),
    )


MAX_COLUMNS: Final = 1024

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.MSSQL,
    sql=SqlTraits(
        dialect="tsql",
        syntax=frozenset({SqlSyntax.BRACKETED_NAMES, SqlSyntax.GO_LINES}),
        maintenance=rf"UPDATE\s+STATISTICS\s+{SQL_NAME}(\s+WITH\s+FULLSCAN)?",
        names=SqlNames(functions=names.FUNCTIONS, table_functions=names.TABLE_FUNCTIONS, methods=names.METHODS),
        statement_words=_STATEMENT_WORDS,
    ),
    extra="mssql",
    uri_schemes=("mssql",),
    libraries=("pyarrow", "arrow_odbc", "pyodbc", "mssql_python_odbc"),
    source=SourceTraits(
        reader="arrow-odbc in a child process (pyodbc if asked)",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
    ),
    sink=SinkTraits(
        load_path=LoadPath.STAGED,
        finalisers=(
            _finaliser(
                StrategyMode.FULL_REFRESH,
                "swap_or_replace_in_transaction",
                "whole target: one transaction",
                "a target with anything attached to it has the source's columns",
            ),
            _finaliser(StrategyMode.INCREMENTAL_APPEND, "insert_in_transaction", "whole load: one transaction"),
            _finaliser(
                StrategyMode.INCREMENTAL_MERGE,
                "merge_in_transaction",
                "whole load: one transaction",
                "the target holds each key once",
            ),
            _finaliser(
                StrategyMode.PARTITION_REPLACE,
                "replace_partitions_in_transaction",
                "whole load: one transaction deletes the staged partitions and inserts the staged rows",
            ),
        ),
        metric_probe=True,
        key_ranges=True,
        identifier_limit_bytes=128,
        memory_limit_bytes=None,
        default_schema="dbo",
        max_columns=MAX_COLUMNS,
    ),
)
