"""Ways to start `dpone` where something is missing, without patching it: small scripts before its own main."""

from __future__ import annotations

import sys

_MAIN = "from dpone_core.cli.main import entry_point; entry_point()"


def without(*modules: str) -> tuple[str, ...]:
    """An interpreter that does not find these top-level modules, as if their extra were not installed."""
    script = f"""
import sys
class Partial:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, path=None, target=None):
        found = getattr(self.finder, "find_spec", None)
        return None if name.partition(".")[0] in {modules!r} or found is None else found(name, path, target)
    def __getattr__(self, name): return getattr(self.finder, name)
sys.meta_path[:] = [Partial(finder) for finder in sys.meta_path]
{_MAIN}
"""
    return (sys.executable, "-c", script)


def with_disk_of(limit_bytes: int) -> tuple[str, ...]:
    """No file of this process grows beyond the limit: the kernel answers as for a full disk."""
    script = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, {limit_bytes}))
{_MAIN}
"""
    return (sys.executable, "-c", script)
