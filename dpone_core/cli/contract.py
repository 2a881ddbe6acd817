"""`dpone contract show PATH` and `dpone contract export PATH`: data contracts, without any connection."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from dpone_core.cli.dispatch import CommandContext
from dpone_core.use_cases.contract import ContractGates, contract_of, show_contract
from dpone_core.use_cases.project import find_project_root, locate

GATES_KIND = "dpone.contract_gates.v1"


def show(context: CommandContext) -> int:
    """Prints the gates that the contracts of a manifest make, with their places, and what no gate judges."""
    arguments = context.arguments
    root = find_project_root(arguments.project_dir, os.environ)
    shown = show_contract(locate(Path(arguments.manifest), root), root, arguments.selector)
    if arguments.format == "json":
        context.console.document({"kind": GATES_KIND, "processes": [one.as_json() for one in shown]})
    else:
        context.console.result("\n".join(_text(one) for one in shown))
    return 0


def export(context: CommandContext) -> int:
    """Prints the contract of one process as YAML, and on stderr each gate that the standard has no word for."""
    arguments = context.arguments
    root = find_project_root(arguments.project_dir, os.environ)
    exported = contract_of(locate(Path(arguments.manifest), root), root, arguments.selector)
    context.console.artifact(exported.model.to_yaml())
    for left_out in exported.left_out:
        context.console.note(f"not in the contract: {left_out}")
    return 0


def _text(shown: ContractGates) -> str:
    lines = [f"{shown.process}: {len(shown.gates)} gate{'' if len(shown.gates) == 1 else 's'}"]
    for gate, place in shown.gates:
        written = yaml.safe_dump(gate, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000)
        lines.append(f"  - {written.strip()}  # {place.file}:{place.line}")
    return "\n".join([*lines, *(f"  not judged: {what}" for what in shown.not_judged)])
