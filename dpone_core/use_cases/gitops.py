"""`gitops pack`, `run-spec` and `dag-factory`: packs and run-specs of manifests, and DAG files bound to run-specs.

What a step asks of its bundle is in `use_cases.verify`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dpone_core.contracts.pack import Pack
from dpone_core.contracts.run_spec import RunSpec
from dpone_core.errors import ETLConfigurationError
from dpone_core.gitops.dag_factory import RUN_SPEC_SUFFIX, DagFileRequest, Scalar, render_dag_file
from dpone_core.gitops.pack import load_pack_file, pack_of, require_pack
from dpone_core.gitops.platform import read_platform
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
    "find_run_specs",
    "pack_manifest",
    "render_dag_file",
]

MAX_PLATFORM_BYTES: Final = 1 << 20


def pack_manifest(path: Path, *, env: Mapping[str, str] | None = None, project_dir: str | Path | None = None) -> Pack:
    """Returns the pack of a valid manifest as it lies on disk. Raises ManifestInvalidError."""
    return pack_of(load_manifest(path, project_root=find_project_root(project_dir, snapshot_env(env))))


def compile_manifest(
    path: Path,
    *,
    pack_file: Path,
    platform_file: Path,
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
    platform = read_platform(_read_platform_file(platform_file), display_name(platform_file))
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


def _read_platform_file(path: Path) -> bytes:
    try:
        return read_file_bounded(path, MAX_PLATFORM_BYTES)
    except OSError:
        raise ETLConfigurationError(f"'{display_name(path)}' cannot be read", code="DPONE_PLATFORM_NOT_FOUND") from None
