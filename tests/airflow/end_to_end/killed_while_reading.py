"""Stands before `dpone` in a pod: the first try of one partition dies while its source keeps it waiting.

`killed_while_reading.py URI TABLE COMMAND...` locks the table, starts the command, waits until the source says that
somebody waits for the lock, and kills the command. Nothing that it prints reaches a receipt.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psycopg

LIMIT_SECONDS = 60.0
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"


def main(uri: str, table: str, command: list[str]) -> None:
    with psycopg.connect(uri) as holder, psycopg.connect(uri, autocommit=True) as watcher:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        process = subprocess.Popen(command)
        limit = time.monotonic() + LIMIT_SECONDS
        while process.poll() is None and time.monotonic() < limit:
            found = watcher.execute(WAITING, (table,)).fetchone()
            if found is not None and found[0]:
                break
            time.sleep(0.02)
        process.kill()
        process.wait()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
