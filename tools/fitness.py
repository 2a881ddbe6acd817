"""Measures the source tree and holds it to the limits of `[tool.fitness]` in pyproject.toml.

`python tools/fitness.py --check` prints one line per broken gate and ends with 1 if there is any. `--write DIRECTORY`
writes `fitness.json` (`dpone.fitness.v1`) there and judges nothing.

What is larger than its limit today is listed by name under `[tool.fitness.ratchet]` with its size: it may only go
down, and the listed size follows it. Lines are physical lines; a function counts from its `def` to its last line.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SCHEMA: Final = "dpone.fitness.v1"
FILE_NAME: Final = "fitness.json"
CORE: Final = "dpone_core"
SLACK_LINES: Final = 50
"""How far a size may lie below its ratchet before the ratchet must follow: small edits need no second one."""

_LARGEST: Final = 10
_CONTRACTS: Final = re.compile(r"Contracts: (\d+) kept, (\d+) broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Lines at most. `heart` names the rooms of dpone_core that count together; `ratchet` is by name of a size."""

    packages: tuple[str, ...]
    module_lines: int
    function_lines: int
    heart_lines: int
    side_lines: int
    heart: tuple[str, ...]
    ratchet: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """`path` is relative to the root with `/`; `functions` are lines by qualified name; `imports` dotted modules."""

    path: str
    lines: int
    functions: Mapping[str, int]
    imports: frozenset[str]
    connectors: frozenset[str]

    @property
    def dotted(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One measured thing: `name` is how the ratchet names it, both numbers are lines."""

    name: str
    lines: int
    limit: int


def limits_of(root: Path) -> Limits:
    """`[tool.fitness]` of the tree; raises TypeError for a field it does not know."""
    stated = dict(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["fitness"])
    ratchet = stated.pop("ratchet", {})
    for name in ("packages", "heart"):
        stated[name] = tuple(stated[name])
    return Limits(**stated, ratchet=ratchet)


def modules_of(root: Path, packages: Sequence[str]) -> tuple[Module, ...]:
    """Every Python file of the packages, by path."""
    files = [file for package in packages for file in sorted((root / package).rglob("*.py"))]
    parsed = {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in files}
    known = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in parsed}
    connectors = sorted({path.split("/")[2] for path in parsed if re.match(rf"{CORE}/connectors/[a-z]\w*/", path)})
    return tuple(_module(path, text, known, connectors) for path, text in parsed.items())


def broken_gates(modules: Sequence[Module], limits: Limits) -> list[str]:
    """One sentence for each gate that does not hold."""
    sizes = {size.name: size for size in _sizes(modules, limits)}
    broken = [
        f"{size.name} has {size.lines} lines, at most {limits.ratchet.get(size.name, size.limit)} are allowed"
        for size in sizes.values()
        if size.lines > limits.ratchet.get(size.name, size.limit)
    ]
    for name, allowed in limits.ratchet.items():
        size = sizes.get(name)
        if size is None:
            broken.append(f"the ratchet names {name}, which does not exist: remove it")
        elif allowed <= size.limit or size.lines <= size.limit:
            broken.append(f"{name} is within its limit of {size.limit} lines: remove its ratchet")
        elif size.lines + SLACK_LINES < allowed:
            broken.append(f"{name} has {size.lines} lines now: lower its ratchet from {allowed}")
    broken += [f"these modules import each other in a circle: {', '.join(circle)}" for circle in circles(modules)]
    return broken


def circles(modules: Sequence[Module]) -> list[tuple[str, ...]]:
    """Groups of modules of which each is reached from each other one by imports, lazy ones included."""
    imports = {module.dotted: module.imports for module in modules}
    reach = {name: _reached(name, imports) for name in imports}
    grouped = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in imports}
    return sorted(group for group in grouped if group)


def side_lines(modules: Sequence[Module]) -> dict[str, int]:
    """Lines of each side of a connector, by `<connector>/source` and `<connector>/sink`."""
    lines: Counter[str] = Counter()
    for module in modules:
        match module.parts:
            case (package, "connectors", connector, ("source" | "sink") as side, _, *_) if package == CORE:
                lines[f"{connector}/{side}"] += module.lines
    return dict(sorted(lines.items()))


def modules_per_room(modules: Sequence[Module]) -> dict[str, int]:
    """Counts of modules by room of dpone_core; a module that lies in no room counts under `.`."""
    rooms = Counter(module.parts[1] if len(module.parts) > 2 else "." for module in modules if module.parts[0] == CORE)
    return dict(sorted(rooms.items()))


def files_outside_connector(modules: Sequence[Module]) -> dict[str, int]:
    """By connector: files of dpone_core outside its folder that name it, its declaration in `declared/` included.

    A file names a connector by `ConnectorType.X`, or by importing or quoting a module of its folder or declaration.
    """
    counts: Counter[str] = Counter()
    for module in modules:
        counts.update(module.connectors)
    return dict(sorted(counts.items()))


def figures(root: Path) -> dict[str, Any]:
    """The document `dpone.fitness.v1`; `commit` and `import_contracts` are null where their tools give no answer."""
    limits = limits_of(root)
    modules = modules_of(root, limits.packages)
    functions = [(f"{m.path}::{name}", lines) for m in modules for name, lines in m.functions.items()]
    return {
        "schema": SCHEMA,
        "commit": _output(root, "git", "rev-parse", "HEAD") or None,
        "import_contracts": _import_contracts(root),
        "broken_gates": broken_gates(modules, limits),
        "largest_modules": _largest([(module.path, module.lines) for module in modules]),
        "largest_functions": _largest(functions),
        "heart_lines": _heart_lines(modules, limits),
        "side_lines": side_lines(modules),
        "modules_per_room": modules_per_room(modules),
        "files_outside_connector": files_outside_connector(modules),
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to measure")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="end with 1 when a gate is broken")
    mode.add_argument("--write", type=Path, metavar="DIRECTORY", help=f"write {FILE_NAME} there")
    arguments = parser.parse_args(argv)
    if arguments.write is not None:
        arguments.write.mkdir(parents=True, exist_ok=True)
        text = json.dumps(figures(arguments.root), indent=2) + "\n"
        (arguments.write / FILE_NAME).write_text(text, encoding="utf-8")
        return 0
    limits = limits_of(arguments.root)
    broken = broken_gates(modules_of(arguments.root, limits.packages), limits)
    for sentence in broken:
        print(f"fitness: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def _sizes(modules: Sequence[Module], limits: Limits) -> Iterator[Size]:
    for module in modules:
        yield Size(name=f"module {module.path}", lines=module.lines, limit=limits.module_lines)
        for name, lines in module.functions.items():
            yield Size(name=f"function {module.path}::{name}", lines=lines, limit=limits.function_lines)
    yield Size(name="heart", lines=_heart_lines(modules, limits), limit=limits.heart_lines)
    for name, lines in side_lines(modules).items():
        yield Size(name=f"side {name}", lines=lines, limit=limits.side_lines)


def _heart_lines(modules: Sequence[Module], limits: Limits) -> int:
    return sum(m.lines for m in modules if m.parts[0] == CORE and m.parts[1].removesuffix(".py") in limits.heart)


def _module(path: str, text: str, known: set[str], connectors: Sequence[str]) -> Module:
    tree = ast.parse(text, filename=path)
    package = path.removesuffix(".py").split("/")[:-1]
    imports = {name for node in _runtime_nodes(tree) for name in _imported(node, package, known)}
    own = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Module(
        path=path,
        lines=len(text.splitlines()),
        functions=dict(_functions(tree, "")),
        imports=frozenset(imports - {own}),
        connectors=_named_connectors(path, tree, imports, connectors),
    )


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield f"{prefix}{child.name}", (child.end_lineno or child.lineno) - child.lineno + 1
        yield from _functions(child, inside)


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node outside `if TYPE_CHECKING:`."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for statement in node.orelse:
            yield from _runtime_nodes(statement)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _runtime_nodes(child)


def _imported(node: ast.AST, package: Sequence[str], known: set[str]) -> Iterator[str]:
    """Modules of the tree that an import statement loads; `from package import name` counts for `package.name`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else ()
        base = ".".join((*above, *((node.module,) if node.module else ())))
        for alias in node.names:
            name = f"{base}.{alias.name}"
            if name in known or base in known:
                yield name if name in known else base


def _named_connectors(path: str, tree: ast.Module, imports: set[str], connectors: Sequence[str]) -> frozenset[str]:
    if not path.startswith(f"{CORE}/"):
        return frozenset()
    words = set(imports)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ConnectorType":
            words.add(f"{CORE}.connectors.{node.attr.lower()}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
    words.add(path.removesuffix(".py").replace("/", "."))
    found = set()
    for connector in connectors:
        named = re.compile(rf"{CORE}\.(?:connectors|declared)\.{connector}(?:\.[\w.]+)?")
        if not path.startswith(f"{CORE}/connectors/{connector}/") and any(named.fullmatch(word) for word in words):
            found.add(connector)
    return frozenset(found)


def _reached(start: str, imports: Mapping[str, frozenset[str]]) -> set[str]:
    """Modules reached from `start` by one import or more; `start` itself only through a circle."""
    reached: set[str] = set()
    pending = list(imports[start])
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += imports.get(name, frozenset())
    return reached


def _largest(sizes: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    ordered = sorted(sizes, key=lambda size: (-size[1], size[0]))
    return [{"name": name, "lines": lines} for name, lines in ordered[:_LARGEST]]


def _import_contracts(root: Path) -> dict[str, int] | None:
    program = Path(sys.executable).with_name("lint-imports")
    match = _CONTRACTS.search(_output(root, str(program), "--no-logo", "--no-cache"))
    return {"kept": int(match[1]), "broken": int(match[2])} if match else None


def _output(root: Path, *command: str) -> str:
    """What a program of this machine prints, empty where it is missing or the tree is not what it works on."""
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
