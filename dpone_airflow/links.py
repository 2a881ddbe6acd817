"""The extra link from a task to its load report: below `[dpone] evidence_base_url`, beside the receipt's run.json.

A link is a convenience: whatever goes wrong it is the empty text, never an error. Contract: POD-14.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import XCOM_RETURN_KEY, BaseOperatorLink, XCom, conf

from dpone_airflow.descriptions import report_url


class LoadReportLink(BaseOperatorLink):
    """Button "dpone evidence" of a step that left evidence, and of the gate that judged it."""

    name = "dpone evidence"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The report's URL, or the empty text where there is no evidence, no base URL or no answer."""
        try:
            base_url = conf.get("dpone", "evidence_base_url", fallback="")
            if not base_url:
                return ""
            evidence_path = getattr(operator, "evidence_path", None)
            if evidence_path is None:
                received = XCom.get_value(ti_key=ti_key, key=XCOM_RETURN_KEY)
                evidence_path = received.get("evidence_path") if isinstance(received, dict) else None
            return report_url(base_url, evidence_path)
        except Exception:  # noqa: BLE001  a link must never fail a task or a page
            return ""
