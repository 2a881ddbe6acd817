"""A manifest has one reading: what two YAML readers could read differently is refused at file:line:column.

Contract: YAML-01, YAML-03, YAML-04, YAML-05, YAML-06, YAML-07, YAML-08.
"""

from __future__ import annotations

import pytest

from dpone_core.manifest.document import MAX_DOCUMENT_BYTES, read_document
from dpone_core.model.problem import ManifestInvalidError, Problem


def value_of(text: str) -> object:
    return read_document(text.encode(), file="m.yaml").value


def problem_of(content: bytes | str) -> Problem:
    with pytest.raises(ManifestInvalidError) as caught:
        read_document(content.encode() if isinstance(content, str) else content, file="m.yaml")
    [problem] = caught.value.problems
    assert problem.fix
    return problem


def test_words_dates_and_times_stay_text() -> None:
    text = "a: off\nb: no\nc: 'y'\non: yes\nd: 2026-01-01\ne: 12:30:45\nf: 5%\ng: 1.2.3\nh: 0.88.0-rc1\n"
    expected = {"a": "off", "b": "no", "c": "y", "on": "yes", "d": "2026-01-01", "e": "12:30:45", "f": "5%"}
    assert value_of(text) == expected | {"g": "1.2.3", "h": "0.88.0-rc1"}


def test_plain_numbers_booleans_and_nulls_have_their_type() -> None:
    assert value_of("a: 0\nb: -12\nc: 0.25\nd: true\ne: FALSE\nf: ~\ng:\n") == {
        "a": 0,
        "b": -12,
        "c": 0.25,
        "d": True,
        "e": False,
        "f": None,
        "g": None,
    }


def test_quoted_scalars_are_always_text() -> None:
    assert value_of("a: '010'\nb: \"true\"\nc: '1e3'\n'1': x\n") == {"a": "010", "b": "true", "c": "1e3", "1": "x"}


@pytest.mark.parametrize(
    "number",
    ["010", "0644", "08", "-01", "1_000", "+1", "0xFF", "0o17", "0b1", "1e3", "1E-3", "1.0", "1.10", "1.", ".5", "-0"],
)
def test_a_number_has_one_spelling(number: str) -> None:
    problem = problem_of(f"quality:\n  threshold: {number}\n")
    assert (problem.code, problem.path) == ("DPONE_YAML_NUMBER_FORM", "quality.threshold")
    assert str(problem.position) == "m.yaml:2:14"
    assert number not in problem.message


@pytest.mark.parametrize("number", [".inf", "-.INF", ".nan", "+.inf"])
def test_non_finite_numbers_are_refused(number: str) -> None:
    assert problem_of(f"a: {number}").code == "DPONE_YAML_NUMBER_FORM"


@pytest.mark.parametrize("number", ["9007199254740992", "-9007199254740992", "1" * 30, "0.1234567890123456789"])
def test_numbers_that_a_float_cannot_hold_are_refused(number: str) -> None:
    assert problem_of(f"a: {number}").code == "DPONE_YAML_NUMBER_RANGE"


def test_the_largest_exact_integer_is_read() -> None:
    assert value_of("a: 9007199254740991") == {"a": 2**53 - 1}


def test_duplicate_keys_name_both_lines() -> None:
    problem = problem_of("a:\n  severity: error\n  other: 1\n  severity: warning\n")
    assert (problem.code, problem.path) == ("DPONE_YAML_DUPLICATE_KEY", "a.severity")
    assert problem.position is not None and problem.position.line == 4
    assert [place.line for place in problem.related] == [2]
    assert "line 2" in problem.message and "line 4" in problem.message


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ("a:\n\tb: 1\n", "DPONE_YAML_TAB", "m.yaml:2:1"),
        ("a:\n  b: 1\n\tc: 1\n", "DPONE_YAML_TAB", "m.yaml:3:1"),
        ("a: 1\n---\nb: 1\n", "DPONE_YAML_DOCUMENTS", "m.yaml:2:1"),
        ("---\n---\na: 1\n", "DPONE_YAML_DOCUMENTS", "m.yaml:2:1"),
        ("", "DPONE_YAML_EMPTY", "m.yaml:1:1"),
        ("# only a comment\n", "DPONE_YAML_EMPTY", "m.yaml:1:1"),
        ("- a\n", "DPONE_YAML_ROOT", "m.yaml:1:1"),
        ("text\n", "DPONE_YAML_ROOT", "m.yaml:1:1"),
        ("1: a\n", "DPONE_YAML_KEY", "m.yaml:1:1"),
        ("a: {true: b}\n", "DPONE_YAML_KEY", "m.yaml:1:5"),
        ("~: b\n", "DPONE_YAML_KEY", "m.yaml:1:1"),
        ("? [a]\n: b\n", "DPONE_YAML_KEY", "m.yaml:1:3"),
        ("a: !!str 1\n", "DPONE_YAML_TAG", "m.yaml:1:4"),
        ("a: !secret x\n", "DPONE_YAML_TAG", "m.yaml:1:4"),
        ("<<: {a: 1}\n", "DPONE_YAML_MERGE_KEY", "m.yaml:1:1"),
        ("a: *b\n", "DPONE_YAML_ALIAS", "m.yaml:1:4"),
        ("a: &a [*a]\n", "DPONE_YAML_ALIAS", "m.yaml:1:8"),
        ("%YAML 1.1\n---\na: 1\n", "DPONE_YAML_VERSION", "m.yaml:1:1"),
        ("a: [1\n", "DPONE_YAML_SYNTAX", "m.yaml:2:1"),
        ("a: b: c\n", "DPONE_YAML_SYNTAX", "m.yaml:1:5"),
        ("a: " + "[" * 60 + "]" * 60, "DPONE_YAML_TOO_DEEP", "m.yaml:1:51"),
        (b"a: 1\nb: \xff\n", "DPONE_YAML_ENCODING", "m.yaml:2:4"),
        ("a: 1".encode("utf-16"), "DPONE_YAML_ENCODING", "m.yaml:1:1"),
        ("a: 1".encode("utf-16-le"), "DPONE_YAML_ENCODING", "m.yaml:1:1"),
        ("a: \x00\n", "DPONE_YAML_CHARACTER", "m.yaml:1:4"),
        ('a: "\\0"\n', "DPONE_YAML_CHARACTER", "m.yaml:1:4"),
        ('a: "\\ud83d"\n', "DPONE_YAML_CHARACTER", "m.yaml:1:7"),
        ("a:\u00a0b\n", "DPONE_YAML_CHARACTER", "m.yaml:1:1"),
        ("a: b\u00a0c\n", "DPONE_YAML_CHARACTER", "m.yaml:1:4"),
        ("a: 1\u2028b: 2\n", "DPONE_YAML_CHARACTER", "m.yaml:1:5"),
        (b"#" * (MAX_DOCUMENT_BYTES + 1), "DPONE_YAML_TOO_LARGE", "m.yaml:1:1"),
    ],
)
def test_unreadable_documents_are_refused_with_their_place(content: bytes | str, code: str, place: str) -> None:
    problem = problem_of(content)
    assert (problem.code, str(problem.position)) == (code, place)


def test_nesting_far_beyond_the_bound_is_refused_before_it_is_read() -> None:
    assert problem_of("[" * 1_000_000).code == "DPONE_YAML_TOO_DEEP"
    assert problem_of("{a: " * 100_000).code == "DPONE_YAML_TOO_DEEP"


def test_a_refused_character_is_named() -> None:
    assert "U+00A0" in problem_of("a: b\u00a0c").message
    assert "U+0000" in problem_of("a: b\x00c").message


def test_a_byte_order_mark_is_accepted_and_does_not_shift_columns() -> None:
    document = read_document("\ufeffa: 1".encode(), file="m.yaml")
    assert document.position_of(("a",)).column == 1


def test_aliases_expand_to_copies() -> None:
    assert value_of("a: &x {b: [1]}\nc: *x\n") == {"a": {"b": [1]}, "c": {"b": [1]}}


def test_an_alias_bomb_is_refused_before_it_expands() -> None:
    levels = "\n".join(f"k{n}: &k{n} [{', '.join(['*k' + str(n - 1)] * 10)}]" for n in range(1, 9))
    assert problem_of(f"k0: &k0 [x, x]\n{levels}\n").code == "DPONE_YAML_ALIAS_BOMB"


def test_tabs_inside_sql_text_are_kept() -> None:
    assert value_of("sql: |\n  SELECT\n  \ta\n") == {"sql": "SELECT\n\ta\n"}


def test_positions_lead_to_keys_and_values() -> None:
    document = read_document(b"a:\n  - b: 1\n  - b:   two\n", file="m.yaml")
    assert str(document.position_of(("a", 1, "b"))) == "m.yaml:3:5"
    assert str(document.position_of(("a", 1, "b"), of_value=True)) == "m.yaml:3:10"
    assert str(document.position_of(("a", 1, "absent"))) == "m.yaml:3:5"
    assert str(document.position_of(("absent",))) == "m.yaml:1:1"
