"""Tests of the MCP server, by the client of the SDK over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import training_scripts

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="mcp is not installed")
READING = {"rule", "findings", "summary", "replay"}


async def converse(folder: Path, options: list[str], calls: list[tuple[str, dict[str, Any]]]) -> tuple[Any, list[Any]]:
    """Return the tools of a server that runs in a folder, and the results of some calls."""
    import mcp

    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "nbdebug", "mcp", *options], cwd=folder, env={**os.environ}
    )
    async with mcp.Client(server) as client:
        tools = (await client.list_tools()).tools
        return tools, [await client.call_tool(name, arguments) for name, arguments in calls]


def text(result: Any) -> str:
    return "".join(part.text for part in result.content)


def in_own_thread(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a thread without an event loop: that of a browser of other tests may run in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "train.py").write_text(training_scripts.NON_FINITE.lstrip(), encoding="utf-8")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("check", {"script": "train.py", "arguments": ["--steps", "6"], "record": "runs/1"}),
        ("findings", {"record": "runs/1"}),
        ("summary", {"record": "runs/1"}),
        ("replay", {"record": "runs/1"}),
        ("rule", {"code": "T603"}),
        ("findings", {"record": "runs/2"}),
    ]
    tools, results = in_own_thread(converse(folder, ["--allow-run"], calls))
    return tools, dict(zip(["check", "findings", "summary", "replay", "rule", "missing"], results, strict=True))


def test_only_check_may_change_something(conversation: tuple[Any, dict[str, Any]]) -> None:
    tools, _ = conversation
    assert {tool.name for tool in tools} == {*READING, "check"}
    assert {tool.name for tool in tools if tool.annotations.read_only_hint} == READING
    assert all(tool.description for tool in tools)


def test_check_returns_findings_of_at_most_4_kb(conversation: tuple[Any, dict[str, Any]]) -> None:
    answer = text(conversation[1]["check"])
    content = json.loads(answer)
    assert content["exit_code"] == 1
    assert content["script"]["arguments"] == ["--steps", "6"]
    assert content["record"] == "runs/1"
    assert {"T603", "D103"} & {finding["code"] for finding in content["findings"]}
    assert len(answer) < 4_100


def test_folder_of_run_answers_findings_summary_and_replay(conversation: tuple[Any, dict[str, Any]]) -> None:
    results = conversation[1]
    content = json.loads(text(results["check"]))
    del content["record"]
    assert json.loads(text(results["findings"])) == content
    assert "6 steps; finished" in text(results["summary"])
    assert "Linear" in text(results["summary"])
    assert "The loss of step 4 was not finite" in text(results["replay"])
    assert text(results["rule"]).startswith("T603 non-finite-loss")


def test_unusable_argument_is_an_error_that_says_what_to_do(conversation: tuple[Any, dict[str, Any]]) -> None:
    result = conversation[1]["missing"]
    assert result.is_error
    assert "nbdebug run train.py --record" in text(result)


def test_server_offers_no_run_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbdebug.commands.mcp_server import create_server

    tools = in_own_thread(create_server(allows_runs=False).list_tools())
    assert {tool.name for tool in tools} == READING
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
