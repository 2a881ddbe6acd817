"""The first program of every container: gives it its root file system, then becomes its command.

It runs as a program of its own, `python -I -S rootfs.py PLAN`, in a private mount namespace when the plan has a root.
The plan is a JSON file: `root` (an empty directory, or null for no file system of its own), `mounts` ([source, target,
read_only], parents first), `working_directory`, `argv`, `env_names` (all the command may see), `start_error`
(file that receives the reason when the command cannot start; the exit code is then 128, as containerd reports a
StartError).

The root is a tmpfs into which the host's directories are bound, so only the mount targets and /dev differ from the
host. A target whose parent is a host directory does not create anything there: that directory is replaced by a tmpfs
with the same entries bound into it. The namespace dies with its last process, so there is nothing to unmount.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import sys
from typing import Any

START_ERROR_EXIT_CODE = 128

_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC = 0x1, 0x20, 0x1000, 0x4000
_LOCKED_FLAGS = (
    0x2 | 0x4 | 0x8 | 0x400 | 0x800
)  # nosuid nodev noexec noatime nodiratime: same bits in statvfs and mount
_ST_RELATIME, _MS_RELATIME = 0x1000, 0x200000
_PR_SET_PDEATHSIG = 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2); raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [os.fsencode(text) or None for text in (source, target, kind)]
    if libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(options) or None):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


class RootFilesystem:
    """A view of the host below `root`. Paths in its methods are paths of the view."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._own = {"/"}  # directories of the view in which an entry can be made without making it on the host
        self._volumes: list[str] = []
        mount("root", root, "tmpfs", 0, "mode=755")
        self._bind_entries("/", without=("dev", "lost+found"))
        self._make_devices()

    def bind(self, source: str, target: str, read_only: bool) -> None:
        """Shows the host's `source` at `target`, whose parents are made as needed."""
        target = os.path.realpath(target)
        if os.path.isdir(source):
            self.make_directory(target)
            self._volumes.append(target)
        else:
            self.make_directory(os.path.dirname(target))
            if not os.path.lexists(self._real(target)):
                self._detach(os.path.dirname(target))
                open(self._real(target), "w").close()
        mount(source, self._real(target), "", _MS_BIND | _MS_REC)
        if read_only:
            self._make_read_only(target)

    def make_directory(self, path: str) -> None:
        """Makes a directory and its parents in the view unless they are there."""
        parent = "/"
        for part in [part for part in os.path.realpath(path).split("/") if part]:
            child = os.path.join(parent, part)
            if not os.path.isdir(self._real(child)):
                self._detach(parent)
                os.mkdir(self._real(child))
                self._own.add(child)
            parent = child

    def enter(self) -> None:
        """Makes the view the root of this process."""
        os.chroot(self._root)

    def _real(self, path: str) -> str:
        return self._root + path

    def _detach(self, directory: str) -> None:
        """Replaces a bound host directory by an own one with the same entries."""
        in_volume = any(f"{directory}/".startswith(f"{volume}/") for volume in self._volumes)
        if directory not in self._own and not in_volume:
            mount("directory", self._real(directory), "tmpfs", 0, "mode=755")
            self._own.add(directory)
            self._bind_entries(directory)

    def _bind_entries(self, directory: str, without: tuple[str, ...] = ()) -> None:
        entries = [entry for entry in os.scandir(directory) if entry.name not in without]
        # The entry that holds the view goes first: a recursive bind must not copy a view that is half built.
        for entry in sorted(entries, key=lambda entry: not self._root.startswith(entry.path + "/")):
            target = self._real(entry.path)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
                continue
            is_directory = entry.is_dir()
            if is_directory:
                os.mkdir(target)
            else:
                open(target, "w").close()
            try:
                mount(entry.path, target, "", _MS_BIND | _MS_REC)
            except FileNotFoundError:  # deleted in the meantime, as happens in a temporary directory
                (os.rmdir if is_directory else os.unlink)(target)

    def _make_devices(self) -> None:
        os.mkdir(self._real("/dev"))
        mount("dev", self._real("/dev"), "tmpfs", 0, "mode=755")
        self._own.add("/dev")
        for name in _DEVICES:
            if os.path.exists(f"/dev/{name}"):
                open(self._real(f"/dev/{name}"), "w").close()
                mount(f"/dev/{name}", self._real(f"/dev/{name}"), "", _MS_BIND)
        for name, destination in _DEVICE_LINKS.items():
            os.symlink(destination, self._real(f"/dev/{name}"))
        os.mkdir(self._real("/dev/shm"), 0o1777)

    def _make_read_only(self, target: str) -> None:
        flags = os.statvfs(self._real(target)).f_flag
        kept = flags & _LOCKED_FLAGS | (_MS_RELATIME if flags & _ST_RELATIME else 0)
        mount("", self._real(target), "", _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the runner dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_error_message(command: str, error: OSError | ValueError) -> str:
    """The runtime's words for a command that cannot be executed."""
    if isinstance(error, FileNotFoundError):
        where = "no such file or directory" if "/" in command else "executable file not found in $PATH"
        return f'exec: "{command}": {where}'
    reason = os.strerror(error.errno or 0).lower() if isinstance(error, OSError) else str(error)
    return f'exec: "{command}": {reason}'


def build_root(plan: dict[str, Any]) -> None:
    """Makes the planned root file system this process's root."""
    view = RootFilesystem(plan["root"])
    for source, target, read_only in plan["mounts"]:
        view.bind(source, target, read_only)
    view.make_directory(plan["working_directory"])
    view.enter()


def restore_defaults(env_names: list[str]) -> None:
    """Restores ignored signals and locale variables, which this interpreter changed for its children."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    for name in os.environ.keys() - set(env_names):
        del os.environ[name]


def main(plan_path: str) -> int:
    with open(plan_path, encoding="utf-8") as file:
        plan: dict[str, Any] = json.load(file)
    die_with_parent()
    argv: list[str] = plan["argv"]
    start_error = os.open(plan["start_error"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, stat.S_IRUSR | stat.S_IWUSR)
    try:
        if plan["root"] is not None:
            build_root(plan)
        os.chdir(plan["working_directory"])
    except OSError as error:
        os.write(start_error, f"container setup: {error}".encode())
        return START_ERROR_EXIT_CODE
    restore_defaults(plan["env_names"])
    try:
        os.execvp(argv[0], argv)
    except (OSError, ValueError) as error:
        os.write(start_error, start_error_message(argv[0], error).encode())
    return START_ERROR_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
