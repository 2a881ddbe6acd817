"""What tasks leave for the outcome gate, after they have decided. Contract: AIR-39."""

from __future__ import annotations

import logging
from typing import Any


def leave(ti: Any, key: str, value: object, log: logging.Logger) -> None:
    """Pushes an XCom for the gate. One that cannot be pushed is a line in the log: the decision stands already, and a
    gate that finds nothing fails.
    """
    try:
        ti.xcom_push(key=key, value=value)
    except Exception as error:  # noqa: BLE001  whatever the API server answers
        log.error("XCom %s could not be left for the outcome gate (%s)", key, type(error).__name__)
