"""The command mcp: a server of the Model Context Protocol on standard input and output, for coding assistants.

It opens no port. Without ``--allow-run`` it only reads: pages of rules, and folders that runs have written.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from nbdebug.commands.pages import SKILL_FILE
from nbdebug.exceptions import SetupError
from nbdebug.serialization.schema import MAX_SUMMARY_BYTES, document, own_version, shorten, to_json
from nbdebug.watching.attached_run import attach

if TYPE_CHECKING:
    from mcp.server import MCPServer


def serve(options: Namespace) -> None:
    """Answer requests until standard input ends; raises SetupError if the package mcp is not installed."""
    create_server(options.allow_run).run("stdio")


def create_server(allows_runs: bool) -> MCPServer[Any]:
    """Return a server with the tools that read, and with ``check`` if it may run scripts."""
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise SetupError(
            f"{error.name} is not installed; expected it for nbdebug mcp. Run pip install 'nbdebug-torch[mcp]'."
        ) from error
    server: MCPServer[Any] = MCPServer("nbdebug", instructions=SKILL_FILE.read_text("utf-8"), version=own_version())
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for function in (rule, findings, summary, replay):
        server.tool(annotations=reading, structured_output=False)(_with_messages(function))
    if allows_runs:
        running = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
        server.tool(annotations=running, structured_output=False)(check)
    return server


def _with_messages(function: Callable[..., str]) -> Callable[..., str]:
    """Return a tool whose SetupError reaches the client with its message; the SDK hides that of other exceptions."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    def call(**arguments: Any) -> str:
        try:
            return function(**arguments)
        except SetupError as error:
            raise ToolError(str(error)) from error

    return call


def rule(code: str = "") -> str:
    """Return the page of a rule by its code, such as L201, or its name; without one, a line for each rule."""
    from nbdebug.rule_engine import rule_registry

    if code:
        return rule_registry.find_rule(code).full_page
    rules = rule_registry.load_rules().values()
    return "\n".join(f"{rule.code} {rule.severity} {rule.name}: {rule.page.splitlines()[0]}" for rule in rules)


def findings(record: str) -> str:
    """Return the findings of a recorded run as JSON of at most 4 kB; ``record`` is its folder. The run may go on."""
    attached = attach(record)
    content = attached.folder.read_findings()
    if content is None:
        content = document("Running", attached.findings.findings, run={"steps": attached.record.steps})
    return to_json(shorten(_without_details(content)))


def summary(record: str) -> str:
    """Return steps, loss and findings of a recorded run, and the summary of its model; ``record`` is its folder."""
    attached = attach(record)
    content = attached.folder.read_findings() or {}
    return "\n\n".join(filter(None, [attached.to_text(), content.get("model_summary", "")]))


def replay(record: str) -> str:
    """Return the operation, the line and the samples of the first value of a recorded run that was NaN or Inf.

    ``record`` is the folder of a run that has ended.
    """
    content = attach(record).folder.read_findings()
    if content is None or "replay" not in content:
        raise SetupError(f"record is {record!r}; expected the folder of a run that trained and has ended. Wait for it.")
    return str(content["replay"])


async def check(script: str, arguments: list[str] | None = None, record: str = "") -> str:
    """Run a training script unchanged under a watch, and return its findings as JSON of at most 4 kB.

    The script runs to its end, so pass arguments that make it short. The folder ``record`` receives the record of the
    run, for the tools findings, summary and replay; by default a temporary one, which the answer names.
    """
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError

    folder = record or tempfile.mkdtemp(prefix="nbdebug-")
    command = [sys.executable, "-m", "nbdebug", "check", script, "--record", folder, "--", *(arguments or [])]
    process = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False)
    content = attach(folder).folder.read_findings()
    if content is None:
        raise ToolError(process.stderr.decode(errors="replace").strip() or f"{script} ended without findings.")
    place = {"record": folder}
    short = shorten(_without_details(content), MAX_SUMMARY_BYTES - len(to_json(place)))
    return to_json({**short, **place})


def _without_details(content: dict[str, Any]) -> dict[str, Any]:
    """Return a document of findings without the long texts that summary and replay return."""
    return {name: value for name, value in content.items() if name not in ("model_summary", "replay")}
