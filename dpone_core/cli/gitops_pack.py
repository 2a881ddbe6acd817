"""`dpone gitops pack PATH`"""

from __future__ import annotations

from pathlib import Path

from dpone_core.cli.dispatch import CommandContext
from dpone_core.cli.output import deliver, require_current
from dpone_core.contracts.pack import render_pack
from dpone_core.use_cases.bundles import pack_manifest


def execute(context: CommandContext) -> int:
    arguments = context.arguments
    pack = pack_manifest(Path(arguments.manifest), project_dir=arguments.project_dir)
    content = render_pack(pack)
    if arguments.output is None:
        context.console.artifact(content.decode("utf-8"))
    elif arguments.check:
        require_current(content, arguments.output)
    else:
        deliver(content, arguments.output)
        context.console.result(f"{pack.pack_fingerprint}  {arguments.output}  {len(pack.dependencies)} files")
    return 0
