"""On the path of runs under libfaketime only: its clock_nanosleep fails, so Python sleeps by select."""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # type: ignore[assignment]
