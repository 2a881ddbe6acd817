"""Rules about columns, judged over the files that a load has written, read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dpone_core.connectors._arrow.column_rules import judge_batches
from dpone_core.model.column_rules import RuleMeasure
from dpone_core.ports.rules import AskedRule
from dpone_core.ports.sink import StagedHandle

from .load import FilesLoad


@dataclass(frozen=True, slots=True)
class FilesRules:
    """StagedRulesPort of one base directory; the handle names the target, whose files of this load are judged."""

    load: FilesLoad

    def judge(self, handle: StagedHandle, asked: Sequence[AskedRule]) -> Mapping[str, RuleMeasure]:
        return judge_batches(handle, asked, partial(self.load.read_back, handle.request))
