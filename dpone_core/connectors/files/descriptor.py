"""What the files source can do, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import ConnectorDescriptor, ConnectorType, SourceTraits

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.FILES,
    sql_dialect=None,
    extra="files",
    source=SourceTraits(reader="pyarrow", metric_probe=True, statements=False, incremental=True, formats=("parquet",)),
)
