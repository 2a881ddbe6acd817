"""What files can do as a source and as a sink, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import (
    ConnectorDescriptor,
    ConnectorType,
    EmbeddedTraits,
    Finaliser,
    SinkTraits,
    SourceTraits,
)
from dpone_core.model.vocabulary import LoadPath, RetryClassification, StrategyMode

MAX_DISTINCT_BYTES: Final = 512 * 1024 * 1024
"""What a distinct count may hold in memory; past it the probe stops instead of guessing."""

_FORMATS: Final = ("parquet", "csv", "ndjson")
_ASSUMES: Final = (
    "no other program writes into the target directory",
    "the file system renames atomically and keeps what was synced",
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.FILES,
    sql=None,
    extra="files",
    uri_schemes=("file",),
    libraries=("pyarrow",),
    embedded=EmbeddedTraits(uri_schemes=("file",)),
    source=SourceTraits(
        reader="pyarrow",
        metric_probe=True,
        statements=False,
        incremental=True,
        formats=_FORMATS,
        key_ranges=True,
        ranged_formats=("parquet",),
    ),
    sink=SinkTraits(
        load_path=LoadPath.LEGACY,
        finalisers=(
            Finaliser(
                strategy=StrategyMode.FULL_REFRESH,
                name="write_then_remove",
                atomic_for="one file: until the old files are removed a reader sees old and new rows together",
                delivery="at least once: gates are judged after the files are visible; a retry replaces them again",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=_ASSUMES,
            ),
            Finaliser(
                strategy=StrategyMode.INCREMENTAL_APPEND,
                name="add_files",
                atomic_for="one file: a reader may see some files of a load before the others",
                delivery="at least once: gates are judged when files are visible; a failed load waits for a person",
                retry_after_unknown=RetryClassification.OPERATOR_VERIFICATION_REQUIRED,
                assumes=_ASSUMES,
            ),
        ),
        metric_probe=True,
        key_ranges=True,
        identifier_limit_bytes=255,
        memory_limit_bytes=MAX_DISTINCT_BYTES,
        default_schema="",
        statements=False,
        formats=_FORMATS,
    ),
)
