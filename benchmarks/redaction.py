"""What redaction costs: 1 MiB of harmless, mixed and hostile text, each against one `str.translate` pass over it.

    python benchmarks/redaction.py [--repeat 3]

CPU time of this process, the best of the repetitions, both passes in turn. `x harmless` is the number to watch: text
made to be expensive must not cost many times what a log costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

from dpone_core.evidence.redaction import Redactor

SIZE: Final = 1 << 20
LOG: Final = "2026-01-01 10:00:00 INFO dpone orders phase=stage rows=65536 bytes=1048576 of raw.orders into dwh\n"
UNITS: Final = {
    "harmless log": LOG,
    "log with secrets": LOG * 8 + "connecting as etl: password=hunter2hunter2 token: 9f8e7d6c5b4a and nothing else\n",
    "hostile token:": "token:",
    "hostile token=": "token=",
    "hostile pwd={": "pwd={",
    "hostile ://a:": "://a:",
    "hostile a-": "a-",
    "hostile begin": "-----BEGIN PRIVATE KEY-----",
}
SECRETS: Final = ("hunter2hunter2", "p&\"s'\\%41 é")
TABLE: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def best_seconds(work: Callable[[], object], repeat: int) -> float:
    found = []
    for _ in range(repeat):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return max(min(found), 1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    redactor = Redactor(SECRETS)
    harmless = 0.0
    print(f"{'1 MiB of':18} {'seconds':>8} {'x translate':>12} {'x harmless':>11}")
    for name, unit in UNITS.items():
        text = (unit * (SIZE // len(unit) + 1))[:SIZE]
        plain = best_seconds(lambda: text.translate(TABLE), repeat)  # noqa: B023 - called at once
        redacted = best_seconds(lambda: redactor.text(text), repeat)  # noqa: B023 - called at once
        harmless = harmless or redacted
        print(f"{name:18} {redacted:8.3f} {redacted / plain:12.0f} {redacted / harmless:11.2f}")


if __name__ == "__main__":
    main()
