"""JSON Schemas (draft 2020-12) of both manifest kinds, made from the authoring models; every property is described.

    python -m dpone_core.manifest.schema --write schemas/     write them
    python -m dpone_core.manifest.schema --check schemas/     exit 1 when a written one differs

What models say in code is added here from the text under each field; fragments (`defaults`, `overrides`, shared
`quality`) are the same sections with nothing required.
"""

from __future__ import annotations

import argparse
import ast
import copy
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from dpone_core.authoring.kinds import FRAGMENT_OF, BatchDocument, FlowProcess, FlowProcesses, ManifestKind
from dpone_core.authoring.platform import PLATFORM_KIND, PlatformSection
from dpone_core.authoring.process import ProcessSection
from dpone_core.authoring.quality import QualitySection
from dpone_core.authoring.section import Section
from dpone_core.contracts.wire import Contract

Schema = dict[str, Any]
_Model = TypeVar("_Model", bound=BaseModel)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REF: Final = "#/$defs/"
_CONDITIONS: Final = ("required", "dependentRequired", "if", "then", "else", "allOf", "not", "minProperties")
_FRAGMENT: Final = "Fragment"
_BATCH_NAMES: Final = {"ProcessSectionFragment": "name", "SourceSectionFragment": "table"}
_KNOWN_CHECKS: Final = {"UnknownCheck": {"type": {"not": {"enum": ["min_rows", "source_target_count"]}}}}


def schema_of(kind: ManifestKind) -> Schema:
    """The JSON Schema of one kind of manifest; `$defs` holds only definitions that it uses."""
    roots: tuple[type[Section], ...] = (BatchDocument,) if kind is ManifestKind.BATCH else (FlowProcess, FlowProcesses)
    definitions: Schema = {}
    shared: tuple[type[Section], ...] = (ProcessSection, QualitySection)
    for model in roots + shared:
        definitions |= _definitions(model)
    for name, properties in _KNOWN_CHECKS.items():
        for field, rule in properties.items():
            definitions[name]["properties"][field] |= rule
    _add_fragments(definitions)
    for model in roots:
        definitions[model.__name__]["patternProperties"] = {"^x-": {"description": "Free for your own use."}}
    names = [model.__name__ for model in roots]
    body: Schema = {"$ref": _REF + names[0]}
    if len(names) > 1:
        body = {"if": {"required": ["processes"]}, "then": {"$ref": _REF + names[1]}, "else": {"$ref": _REF + names[0]}}
    head: Schema = {
        "$schema": DIALECT,
        "$id": f"https://dpone.dev/schemas/{kind.value}.json",
        "title": kind.value,
        "description": roots[0].__doc__,
        "type": "object",
    }
    reachable = _reachable(body, definitions)
    return head | body | {"$defs": {name: definitions[name] for name in sorted(reachable)}}


def _definitions(model: type[Section]) -> Schema:
    """Every section below `model`, itself included, described and free of nulls."""
    schema = model.model_json_schema(by_alias=True, ref_template=_REF + "{model}")
    definitions: Schema = schema.pop("$defs", {})
    definitions[model.__name__] = schema
    sections = {section.__name__: section for root in (Section, Contract) for section in _sections(root)}
    for name, definition in definitions.items():
        if name in sections:
            _describe(definition, sections[name])
    return {name: _remove_nulls(definition) for name, definition in definitions.items() if name != "JsonValue"}


def _sections(model: type[_Model]) -> Iterator[type[_Model]]:
    for section in model.__subclasses__():
        yield section
        yield from _sections(section)


def _describe(definition: Schema, section: type[BaseModel]) -> None:
    texts: dict[str, str] = {}
    for ancestor in reversed(section.__mro__):
        if issubclass(ancestor, (Section, Contract)):
            texts |= field_texts(ancestor)
    for name, field in section.model_fields.items():
        described = definition["properties"][field.alias or name]
        described["description"] = texts[name]
        described.pop("title", None)
    definition["description"] = " ".join((section.__doc__ or "").split())


def field_texts(section: type[BaseModel]) -> dict[str, str]:
    """The text under each field of a class body, by field name."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            texts[statement.target.id] = " ".join(following.value.value.split())
    return texts


def _remove_nulls(node: Any) -> Any:
    """Removes null from types and defaults, because a manifest has no nulls, except where a required field accepts
    one; closes mappings.
    """
    if isinstance(node, list):
        return [_remove_nulls(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned = {key: _remove_nulls(item) for key, item in node.items() if key != "default" or _is_plain(item)}
    fields = node.get("properties", {})
    meant = [name for name in node.get("required", ()) if {"type": "null"} in fields.get(name, {}).get("anyOf", ())]
    for name in meant:
        cleaned["properties"][name] = fields[name]
    options = cleaned.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        del cleaned["anyOf"]
        kept = [option for option in options if option != {"type": "null"}]
        cleaned |= kept[0] if len(kept) == 1 else {"anyOf": kept}
    if "patternProperties" in cleaned:
        cleaned.setdefault("additionalProperties", False)
    return cleaned


def _is_plain(default: Any) -> bool:
    """Whether a default is worth stating; defaults of whole sections only repeat those of their fields."""
    return isinstance(default, (bool, int, float, str)) or (isinstance(default, list) and bool(default))


def _add_fragments(definitions: Schema) -> None:
    for name in list(definitions):
        definitions[name] = _insert_fragments(definitions[name], definitions)


def _insert_fragments(node: Any, definitions: Schema) -> Any:
    """Replaces each fragment mark by the schema of that fragment."""
    if isinstance(node, list):
        return [_insert_fragments(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    mark = node.get(FRAGMENT_OF)
    if mark is None:
        return {key: _insert_fragments(item, definitions) for key, item in node.items()}
    name = "ProcessSection" if mark == "defaults" else "QualitySection"
    placed: Schema = {"$ref": _REF + _fragment(name, definitions)}
    if mark == "process":
        definitions["SharedProcess"] = copy.deepcopy(definitions["ProcessSection"])
        definitions["SharedProcess"]["properties"]["quality"] |= placed
        placed = {"$ref": _REF + "SharedProcess"}
    return placed | {key: node[key] for key in ("description", "title") if key in node}


def _fragment(name: str, definitions: Schema) -> str:
    """Adds the section without its conditions, and so for every section below; items of lists stay whole, because
    lists replace.
    """
    fragment = name + _FRAGMENT
    if fragment not in definitions and name in definitions:
        definitions[fragment] = {}
        body = {key: item for key, item in definitions[name].items() if key not in _CONDITIONS}
        if "properties" in body:
            body.pop("oneOf", None)
        properties = body.get("properties", {})
        body["properties"] = {
            field: _relax(item, definitions)
            for field, item in properties.items()
            if _BATCH_NAMES.get(fragment) != field
        }
        definitions[fragment] = body if properties else copy.deepcopy(definitions[name])
    return fragment


def _relax(node: Any, definitions: Schema) -> Any:
    if isinstance(node, list):
        return [_relax(item, definitions) for item in node]
    if not isinstance(node, dict) or node.get("type") == "array":
        return node
    reference = node.get("$ref")
    if isinstance(reference, str) and "properties" in definitions.get(reference.removeprefix(_REF), {}):
        return node | {"$ref": _REF + _fragment(reference.removeprefix(_REF), definitions)}
    return {key: _relax(item, definitions) for key, item in node.items()}


def _reachable(body: Schema, definitions: Schema) -> set[str]:
    found: set[str] = set()
    waiting = list(_references(body))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(definitions[name])
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix(_REF)
        for item in node.values():
            yield from _references(item)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def schema_text(kind: ManifestKind) -> str:
    """The exact text of the schema file."""
    return json.dumps(schema_of(kind), ensure_ascii=False, indent=2) + "\n"


def platform_schema() -> Schema:
    """The JSON Schema of the platform file."""
    definitions = _definitions(PlatformSection) | {"JsonValue": {"description": "Any value."}}
    body = {"$ref": _REF + PlatformSection.__name__}
    head: Schema = {
        "$schema": DIALECT,
        "$id": f"https://dpone.dev/schemas/{PLATFORM_KIND}.json",
        "title": PLATFORM_KIND,
        "description": PlatformSection.__doc__,
        "type": "object",
    }
    return head | body | {"$defs": {name: definitions[name] for name in sorted(_reachable(body, definitions))}}


def schema_files() -> dict[str, str]:
    """Text of every file under schemas/, by file name."""
    texts = {f"{kind.value}.json": schema_text(kind) for kind in ManifestKind}
    platform = json.dumps(platform_schema(), ensure_ascii=False, indent=2) + "\n"
    return texts | {f"{PLATFORM_KIND}.json": platform}


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the schema files. Exit status 1 means that a file differs from the models."""
    parser = argparse.ArgumentParser(prog="python -m dpone_core.manifest.schema", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="DIRECTORY")
    action.add_argument("--check", type=Path, metavar="DIRECTORY", nargs="?", const=Path("schemas"))
    chosen = parser.parse_args(arguments)
    drifted = 0
    for name, text in schema_files().items():
        path = (chosen.write or chosen.check) / name
        if chosen.write is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stdout.write(f"{path}: differs from the models; run with --write\n")
            drifted = 1
    return drifted


if __name__ == "__main__":
    sys.exit(main())
