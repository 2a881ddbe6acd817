"""A pack lists every file a process opens, in one order, under one fingerprint (DAG-06)."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from dpone_core.contracts.pack import (
    MAX_PACK_BYTES,
    Dependency,
    DependencyKind,
    Pack,
    PackedProcess,
    build_pack,
    parse_pack,
    render_pack,
)
from dpone_core.contracts.wire import ContractInvalidError
from dpone_core.model.fingerprint import fingerprint
from tests.spec.contracts.documents import SHA_A, SHA_B, SHA_C, SHA_D

MANIFEST = Dependency(kind=DependencyKind.MANIFEST, path="flights.yaml", sha256=SHA_A)
HOOK = Dependency(kind=DependencyKind.HOOK_SQL, path="sql/refresh.sql", sha256=SHA_B)
QUERY = Dependency(kind=DependencyKind.QUERY_SQL, path="sql/a.sql", sha256=SHA_C)
FLIGHTS = PackedProcess(process="flights", policy_snapshot_id=SHA_D)
AIRPORTS = PackedProcess(process="airports", policy_snapshot_id=SHA_C)


def pack() -> Pack:
    return build_pack("flights.yaml", [FLIGHTS, AIRPORTS], [MANIFEST, HOOK, QUERY])


def resealed(**changes: Any) -> str:
    document = {**pack().wire(), **changes}
    document.pop("pack_fingerprint")
    return json.dumps({**document, "pack_fingerprint": fingerprint(document)})


def test_every_order_of_discovery_gives_the_same_bytes() -> None:
    rendered = {
        render_pack(build_pack("flights.yaml", [AIRPORTS, FLIGHTS], found))
        for found in permutations([MANIFEST, HOOK, QUERY, HOOK])
    }
    assert len(rendered) == 1


def test_a_pack_survives_its_file() -> None:
    assert parse_pack(render_pack(pack())) == pack()


@pytest.mark.parametrize("field", ["manifest", "processes", "dependencies"])
def test_the_fingerprint_covers_everything(field: str) -> None:
    other: dict[str, object] = {
        "manifest": "other.yaml",
        "processes": [AIRPORTS.wire()],
        "dependencies": [{**MANIFEST.wire(), "sha256": SHA_D}],
    }
    document = {**pack().wire(), field: other[field]}
    with pytest.raises(ContractInvalidError) as caught:
        parse_pack(json.dumps(document))
    assert caught.value.code == "DPONE_PACK_INVALID"


@pytest.mark.parametrize(
    "path", ["/etc/x.sql", "../x.sql", "a/../x.sql", "./x.sql", "a//x.sql", "a\\x.sql", "a\nb", "a/"]
)
def test_a_path_outside_the_bundle_is_refused(path: str) -> None:
    dependencies = [MANIFEST.wire(), {"kind": "query_sql", "path": path, "sha256": SHA_A}]
    with pytest.raises(ContractInvalidError, match="path"):
        parse_pack(resealed(dependencies=sorted(dependencies, key=lambda item: str(item["path"]))))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dependencies": [HOOK.wire()]}, "manifest"),
        ({"dependencies": [HOOK.wire(), MANIFEST.wire()]}, "ordered"),
        ({"dependencies": [MANIFEST.wire(), MANIFEST.wire()]}, "unique"),
        ({"processes": [FLIGHTS.wire(), AIRPORTS.wire()]}, "ordered"),
        ({"processes": []}, "processes"),
        ({"schema": "dpone.pack.v2"}, "schema"),
        ({"surprise": 1}, "surprise"),
        ({"manifest": "other.yaml"}, "manifest"),
    ],
)
def test_a_pack_that_is_not_canonical_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ContractInvalidError, match=sentence):
        parse_pack(resealed(**changes))


def test_one_file_cannot_have_two_hashes() -> None:
    twice = HOOK.model_copy(update={"kind": DependencyKind.QUERY_SQL, "sha256": SHA_D})
    with pytest.raises(ContractInvalidError, match="two different hashes"):
        build_pack("flights.yaml", [FLIGHTS], [MANIFEST, HOOK, twice])


def test_a_pack_over_the_limit_is_refused() -> None:
    with pytest.raises(ContractInvalidError, match="larger"):
        parse_pack(b" " * MAX_PACK_BYTES + b"{}")
