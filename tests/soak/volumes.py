"""A small file system of its own, that can be full: tmpfs, where the user may mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_FILLER = "filler"


@dataclass(frozen=True, slots=True)
class Volume:
    """A directory. `is_mounted` is False where mounting is refused: then it is an ordinary one and cannot be full."""

    path: Path
    is_mounted: bool

    @classmethod
    def at(cls, path: Path, mebibytes: int) -> Volume:
        path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0777", "tmpfs", str(path)]
        done = subprocess.run(command, capture_output=True) if os.geteuid() == 0 else None
        return cls(path, done is not None and done.returncode == 0)

    def fill(self, left: int) -> None:
        """Writes until about `left` bytes are free, whole blocks."""
        with (self.path / _FILLER).open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, max(shutil.disk_usage(self.path).free - left, 1))

    def free(self) -> None:
        (self.path / _FILLER).unlink(missing_ok=True)

    def close(self, *, keep: bool) -> None:
        """Takes the mount away; with `keep` its files stay where they were, on the disk below."""
        if not self.is_mounted:
            return
        self.free()
        beside = self.path.with_name(self.path.name + ".kept")
        if keep:
            shutil.copytree(self.path, beside, dirs_exist_ok=True)
        subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)
        if keep:
            shutil.copytree(beside, self.path, dirs_exist_ok=True)
            shutil.rmtree(beside)
