"""Reads a YAML file as plain values with their positions. Every command reads it the same way; ambiguous text is
refused.

YAML 1.2 core schema, one document, a mapping at the root, text keys, no tags. Anchors and aliases are allowed up to a
limit. Merge keys (`<<`) are not part of YAML 1.2 and are refused; `defaults` shares fields instead.
Contract: YAML-01, YAML-03, YAML-04, YAML-07, YAML-08.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from dpone_core.authoring.validate import PathPart, path_text
from dpone_core.manifest.scalars import RefusedScalar, Scalar, plain_scalar
from dpone_core.model.problem import ManifestInvalidError, Position, Problem
from dpone_core.model.visible_text import REORDERING

MAX_DOCUMENT_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 48
MAX_ALIASED_NODES: Final = 20_000
Path = tuple[PathPart, ...]

_PARSER: Final = getattr(yaml, "CLoader", yaml.Loader)
_CONTENT: Final = (yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent)
_FORBIDDEN: Final = re.compile(
    f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029{REORDERING}\ufffe\uffff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document and its positions. `keys` gives the position of each field name, `values` that of its value, both
    by path from the root.
    """

    file: str
    value: dict[str, object]
    keys: Mapping[Path, Position]
    values: Mapping[Path, Position]

    def position_of(self, path: Path, *, of_value: bool = False) -> Position:
        """Position of the field or value at `path`; for a path that was not authored, that of its nearest authored
        parent.
        """
        first, second = (self.values, self.keys) if of_value else (self.keys, self.values)
        for length in range(len(path), 0, -1):
            place = first.get(path[:length]) or second.get(path[:length])
            if place is not None:
                return place
        return Position(file=self.file, line=1, column=1)


def read_document(content: bytes, *, file: str) -> Document:
    """Reads one YAML document. `file` is the name shown in messages.

    Raises ManifestInvalidError with one problem, code DPONE_YAML_*, at its line and column.
    """
    text = _decode(content, file)
    try:
        root = _Composer(file, yaml.parse(text, Loader=_PARSER)).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from error
    if root is None:
        raise _refused("DPONE_YAML_EMPTY", "the file is empty", _position_at(file), "start with 'kind: dpone.flow.v1'")
    if isinstance(root, _ScalarNode) and isinstance(root.value, RefusedScalar):
        raise _refused(root.value.code, f"{root.value.what} is not accepted", root.position, root.value.fix)
    if not isinstance(root, _MappingNode):
        raise _refused("DPONE_YAML_ROOT", "the document must be a mapping", root.position, "start with 'kind: ...'")
    expansion = _Expansion(file=file)
    value = expansion.mapping(root, ())
    return Document(file=file, value=value, keys=expansion.keys, values=expansion.values)


def _position_at(file: str, line: int = 1, column: int = 1) -> Position:
    return Position(file=file, line=line, column=column)


def _refused(
    code: str, message: str, position: Position, fix: str, *, path: Path = (), related: tuple[Position, ...] = ()
) -> ManifestInvalidError:
    problem = Problem(code=code, message=message, path=path_text(path), position=position, fix=fix, related=related)
    return ManifestInvalidError((problem,))


def _decode(content: bytes, file: str) -> str:
    if len(content) > MAX_DOCUMENT_BYTES:
        raise _refused(
            "DPONE_YAML_TOO_LARGE", "the file is larger than 1 MiB", _position_at(file), "split the manifest"
        )
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in content[:2]:
        raise _refused("DPONE_YAML_ENCODING", "the file is UTF-16 or UTF-32", _position_at(file), "save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        place = _position_of_index(file, before, len(before))
        raise _refused(
            "DPONE_YAML_ENCODING", "the file must be UTF-8, and a byte here is not", place, "save the file as UTF-8"
        ) from error
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        place = _position_of_index(file, text, forbidden.start())
        name = f"U+{ord(forbidden.group()):04X}"
        raise _refused("DPONE_YAML_CHARACTER", f"the character {name} is not allowed", place, "remove the character")
    return text


def _position_of_index(file: str, text: str, index: int) -> Position:
    before = text[:index]
    return _position_at(file, before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _syntax_error(error: yaml.MarkedYAMLError, text: str, file: str) -> ManifestInvalidError:
    mark = error.problem_mark or error.context_mark
    position = _position_at(file, mark.line + 1, mark.column + 1) if mark is not None else _position_at(file)
    lines = text.split("\n")
    line = lines[position.line - 1] if position.line <= len(lines) else ""
    problem = error.problem or "not valid YAML"
    if "tab" in problem or line[: position.column].strip(" ").startswith("\t") or "\\t" in problem:
        return _refused("DPONE_YAML_TAB", "a tab is used as indentation", position, "indent with spaces")
    if "nesting" in problem:
        return _refused("DPONE_YAML_TOO_DEEP", "the document is nested too deeply", position, "flatten it")
    if "Unicode character escape" in problem:
        return _refused("DPONE_YAML_CHARACTER", "the escape does not name a character", position, "write the character")
    if "undefined alias" in problem:
        return _undefined_alias(position)
    return _refused("DPONE_YAML_SYNTAX", f"not valid YAML: {problem}", position, "check quotes, colons, indentation")


def _undefined_alias(position: Position) -> ManifestInvalidError:
    return _refused(
        "DPONE_YAML_ALIAS", "the alias names an anchor that is not defined before it", position, "define it above"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScalarNode:
    position: Position
    value: Scalar | RefusedScalar
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListNode:
    position: Position
    items: list[_Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MappingNode:
    position: Position
    entries: list[tuple[_Entry, _Entry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A node at the place where it is used; `aliased` is True for a use through `*name`."""

    node: _Node
    position: Position
    aliased: bool = False


_Node = _ScalarNode | _ListNode | _MappingNode


class _Composer:
    """Builds nodes from YAML events; keeps the anchors and limits the nesting."""

    def __init__(self, file: str, events: Iterator[yaml.Event]) -> None:
        self._file = file
        self._events = events
        self._anchors: dict[str, _Node] = {}

    def document(self) -> _Node | None:
        root: _Node | None = None
        started = False
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._check_start(event, second=started)
                started = True
            elif not isinstance(event, (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentEndEvent)):
                root = self._entry(event, depth=1).node
                if isinstance(root, _ScalarNode) and root.value is None and root.text == "":
                    root = None
        return root

    def _check_start(self, event: yaml.DocumentStartEvent, *, second: bool) -> None:
        position = self._position(event)
        if second:
            raise _refused(
                "DPONE_YAML_DOCUMENTS",
                "a file must hold one document, and a second one starts here",
                position,
                "use one file for each",
            )
        if event.version is not None and tuple(event.version) != (1, 2):
            raise _refused("DPONE_YAML_VERSION", "only YAML 1.2 is read", position, "remove the %YAML directive")

    def _position(self, event: yaml.Event) -> Position:
        mark = event.start_mark
        return (
            _position_at(self._file, mark.line + 1, mark.column + 1) if mark is not None else _position_at(self._file)
        )

    def _entry(self, event: yaml.Event, *, depth: int) -> _Entry:
        position = self._position(event)
        if depth > MAX_DEPTH:
            raise _refused("DPONE_YAML_TOO_DEEP", "the document is nested too deeply", position, "flatten it")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _undefined_alias(position)
            return _Entry(node=self._anchors[event.anchor], position=position, aliased=True)
        if not isinstance(event, _CONTENT):
            raise _refused("DPONE_YAML_SYNTAX", "not valid YAML: content expected", position, "check the indentation")
        if event.tag is not None:
            raise _refused("DPONE_YAML_TAG", "tags are not supported", position, "remove the tag; quote text")
        node = self._node(event, position, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return _Entry(node=node, position=position)

    def _node(self, event: yaml.Event, position: Position, depth: int) -> _Node:
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None or event.style == ""
            return _ScalarNode(
                position=position, value=plain_scalar(event.value) if plain else event.value, text=event.value
            )
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                items.append(self._entry(item, depth=depth + 1))
            return _ListNode(position=position, items=items)
        entries = []
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            name = self._entry(key, depth=depth + 1)
            entries.append((name, self._entry(next(self._events), depth=depth + 1)))
        return _MappingNode(position=position, entries=entries)


@dataclass(slots=True, kw_only=True)
class _Expansion:
    """Converts nodes into values and records their positions; limits the number of nodes that aliases repeat."""

    file: str
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)
    _aliased_nodes: int = 0

    def mapping(self, node: _MappingNode, path: Path, *, aliased: bool = False) -> dict[str, object]:
        value: dict[str, object] = {}
        for name, entry in node.entries:
            key = self._key(name, path)
            where = (*path, key)
            if key in value:
                raise self._duplicate(where, name.position)
            self.keys[where] = name.position
            value[key] = self._value(entry, where, aliased=aliased)
        return value

    def _duplicate(self, where: Path, position: Position) -> ManifestInvalidError:
        first = self.keys[where]
        return _refused(
            "DPONE_YAML_DUPLICATE_KEY",
            f"this field is given twice, first on line {first.line}, again on line {position.line}",
            position,
            "keep one of the two",
            path=where,
            related=(first,),
        )

    def _key(self, entry: _Entry, path: Path) -> str:
        node = entry.node
        if entry.aliased or not isinstance(node, _ScalarNode) or isinstance(node.value, (bool, int, float, type(None))):
            raise _refused("DPONE_YAML_KEY", "a key must be text", entry.position, "quote the key", path=path)
        if isinstance(node.value, RefusedScalar):
            raise self._refused_scalar(node.value, entry.position, path)
        self._check_characters(node.value, entry.position, path)
        if node.value == "<<":
            raise _refused(
                "DPONE_YAML_MERGE_KEY",
                "merge keys (<<) are not part of YAML 1.2",
                entry.position,
                "use 'defaults' to share fields",
            )
        return node.value

    def _value(self, entry: _Entry, path: Path, *, aliased: bool) -> object:
        aliased = aliased or entry.aliased
        if aliased:
            self._aliased_nodes += 1
            if self._aliased_nodes > MAX_ALIASED_NODES or len(path) > MAX_DEPTH:
                raise _refused(
                    "DPONE_YAML_ALIAS_BOMB",
                    f"aliases repeat more than {MAX_ALIASED_NODES} values or nest too deeply",
                    entry.position,
                    "write it out",
                )
        self.values[path] = entry.position
        node = entry.node
        if isinstance(node, _MappingNode):
            return self.mapping(node, path, aliased=aliased)
        if isinstance(node, _ListNode):
            return [self._value(item, (*path, index), aliased=aliased) for index, item in enumerate(node.items)]
        if isinstance(node.value, RefusedScalar):
            raise self._refused_scalar(node.value, entry.position, path)
        if isinstance(node.value, str):
            self._check_characters(node.value, entry.position, path)
        return node.value

    def _check_characters(self, text: str, position: Position, path: Path) -> None:
        found = _FORBIDDEN.search(text)
        if found is not None:
            name = f"U+{ord(found.group()):04X}"
            raise _refused(
                "DPONE_YAML_CHARACTER",
                f"the character {name} is not allowed in text",
                position,
                "remove the character",
                path=path,
            )

    def _refused_scalar(self, refused: RefusedScalar, position: Position, path: Path) -> ManifestInvalidError:
        return _refused(refused.code, f"{refused.what} is not accepted", position, refused.fix, path=path)
