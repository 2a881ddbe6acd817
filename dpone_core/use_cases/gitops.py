"""`gitops pack`, `run-spec` and `dag-factory`: packs and run-specs of manifests, and DAG files bound to run-specs.

What a step asks of its bundle is in `use_cases.verify`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from dpone_core.contracts.pack import Pack
from dpone_core.contracts.run_spec import MAX_RUN_SPEC_BYTES, RunSpec, parse_run_spec
from dpone_core.errors import ETLConfigurationError
from dpone_core.gitops.changes import run_spec_changes
from dpone_core.gitops.dag_factory import RUN_SPEC_SUFFIX, DagFileRequest, Scalar, render_dag_file
from dpone_core.gitops.pack import load_pack_file, pack_of, require_pack
from dpone_core.gitops.platform import PlatformFile, read_platform
from dpone_core.gitops.run_spec import CompileRequest, compile_run_spec, used_refs
from dpone_core.manifest.document import MAX_DOCUMENT_BYTES, read_document
from dpone_core.manifest.processes import validate_document
from dpone_core.manifest.project_files import real_path
from dpone_core.manifest.resolve import Manifest, display_name, load_manifest
from dpone_core.resources import DocumentTooLargeError, read_file_bounded
from dpone_core.use_cases.plan import plan_authored
from dpone_core.use_cases.project import find_project_root, snapshot_env

__all__ = [
    "DagFileRequest",
    "Scalar",
    "compile_manifest",
    "find_platform",
    "find_run_specs",
    "pack_manifest",
    "read_run_spec",
    "render_dag_file",
    "render_platform",
    "run_spec_changes",
]

MAX_PLATFORM_BYTES: Final = 1 << 20
_ENVIRONMENT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def pack_manifest(path: Path, *, env: Mapping[str, str] | None = None, project_dir: str | Path | None = None) -> Pack:
    """Returns the pack of a valid manifest as it lies on disk. Raises ManifestInvalidError."""
    return pack_of(load_manifest(path, project_root=find_project_root(project_dir, snapshot_env(env))))


def read_run_spec(path: Path) -> RunSpec:
    """The run-spec in a file. Raises ETLConfigurationError, code DPONE_RUN_SPEC_NOT_FOUND or DPONE_RUN_SPEC_INVALID."""
    try:
        return parse_run_spec(read_file_bounded(path, MAX_RUN_SPEC_BYTES))
    except (OSError, DocumentTooLargeError):
        raise ETLConfigurationError(
            f"'{display_name(path)}' cannot be read as a run-spec", code="DPONE_RUN_SPEC_NOT_FOUND", fix="compile it"
        ) from None


def compile_manifest(
    path: Path,
    *,
    pack_file: Path,
    platform_file: Path,
    environment: str | None = None,
    selector: str | None = None,
    env: Mapping[str, str] | None = None,
    project_dir: str | Path | None = None,
) -> RunSpec:
    """Compiles the run-spec of one process. Raises ETLConfigurationError for a stale pack or an unmapped secret."""
    manifest = load_manifest(path, project_root=find_project_root(project_dir, snapshot_env(env)))
    configs = manifest.select(selector)
    if len(configs) > 1:
        raise ETLConfigurationError(
            "one run-spec is of one process", code="DPONE_SELECTOR_REQUIRED", fix="pass --selector"
        )
    pack = load_pack_file(pack_file)
    require_pack(pack, pack.pack_fingerprint, manifest)
    planned = plan_authored(manifest, configs[0])
    platform = find_platform(platform_file, environment)
    platform.require_known(_find_process_names(platform.overridden_processes(), manifest))
    spec = compile_run_spec(
        CompileRequest(
            config=planned.config,
            plan=planned.plan,
            policy_snapshot_id=planned.snapshot.policy_snapshot_id,
            pack=pack,
            pack_path=_path_inside(pack_file, manifest.project_root),
            platform=platform.of(planned.config.process),
            sole_process=len(manifest.processes) == 1,
        )
    )
    kinds = frozenset(step.kind for step in spec.steps)
    platform.require_used(planned.config.process, used_refs(planned.config), kinds=kinds)
    return spec


def _find_process_names(wanted: tuple[str, ...], manifest: Manifest) -> tuple[str, ...]:
    """Returns the process names of the manifest and, where wanted ones are missing, of the project's other manifests.

    A file is parsed only if it may hold a name that is still missing; one that is no valid manifest holds none.
    """
    found = {config.process for config in manifest.processes}
    for path in sorted(manifest.project_root.rglob("*.y*ml")):
        missing = [name for name in wanted if name not in found]
        if not missing:
            break
        hidden = any(part.startswith(".") for part in path.relative_to(manifest.project_root).parts)
        if hidden or path.suffix not in (".yaml", ".yml") or not path.is_file():
            continue
        try:
            content = read_file_bounded(path, MAX_DOCUMENT_BYTES)
            if b"dpone.batch.v1" in content or any(name.encode() in content for name in missing):
                authored = validate_document(read_document(content, file=display_name(path)))
                found.update(process.name for process in authored.processes)
        except (OSError, DocumentTooLargeError, ETLConfigurationError):
            continue
    return tuple(sorted(found))


def find_run_specs(run_specs: Path, output: Path) -> tuple[str, tuple[str, ...]]:
    """Returns the directory of the run-specs as seen from the DAG file, and their names in order.

    Raises ETLConfigurationError when the directory holds none.
    """
    names = sorted(file.name.removesuffix(RUN_SPEC_SUFFIX) for file in run_specs.glob(f"*{RUN_SPEC_SUFFIX}"))
    if not names:
        raise ETLConfigurationError(
            f"'{display_name(run_specs)}' holds no *{RUN_SPEC_SUFFIX}",
            code="DPONE_RUN_SPEC_NOT_FOUND",
            fix="compile them with: dpone gitops airflow run-spec MANIFEST",
        )
    return Path(os.path.relpath(real_path(run_specs), real_path(output).parent)).as_posix(), tuple(names)


def _path_inside(path: Path, root: Path) -> str:
    """Returns the POSIX path below the bundle root. Raises ETLConfigurationError for a file outside it."""
    try:
        return real_path(path).relative_to(real_path(root)).as_posix()
    except ValueError:
        raise ETLConfigurationError(
            "the pack lies outside the project", code="DPONE_PACK_OUTSIDE_PROJECT", fix="write it below --project-dir"
        ) from None


def find_platform(path: Path, environment: str | None = None) -> PlatformFile:
    """The platform file, with `platform.<environment>.yaml` beside it merged over it.

    Raises ManifestInvalidError, or ETLConfigurationError, code DPONE_PLATFORM_NOT_FOUND.
    """
    if environment is None:
        return read_platform(_read_platform_file(path), display_name(path))
    if _ENVIRONMENT.fullmatch(environment) is None:
        raise ETLConfigurationError(
            "an environment is named by lower-case letters, digits, '_' and '-'", fix="for example --environment prod"
        )
    over = path.with_name(f"{path.stem}.{environment}{path.suffix}")
    overlay = (_read_platform_file(over), display_name(over))
    return read_platform(_read_platform_file(path), display_name(path), overlay)


def render_platform(platform: PlatformFile, process: str | None = None) -> str:
    """YAML of the merged file, or of what it decides for one process: what a run-spec is compiled with."""
    document: object = platform.document.value
    if process is not None:
        of = platform.of(process)
        document = {
            "image": of.image,
            "connections": {name: key.model_dump(mode="json") for name, key in of.connections.items()},
            "steps": of.steps.model_dump(mode="json", exclude_none=True),
            "settings": of.settings.model_dump(mode="json", exclude_defaults=True),
        }
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def _read_platform_file(path: Path) -> bytes:
    try:
        return read_file_bounded(path, MAX_PLATFORM_BYTES)
    except OSError:
        raise ETLConfigurationError(
            f"'{display_name(path)}' cannot be read", code="DPONE_PLATFORM_NOT_FOUND", fix="write it, or name another"
        ) from None
