"""Tests of exceptions in unusual places: other libraries, handlers, recursion, threads, no memory, edited source."""

from __future__ import annotations

import gc
import linecache
import traceback
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import nbdebug
from tests.crashes.programs import raise_from

NET = "net, x = nn.Linear(3, 1), torch.randn(2, 4)\n"
# Programs whose exception is not torch's, or has no cause in torch: no finding.
NO_WORD = {
    "numpy": "import numpy as np\nnp.zeros((2, 3)) @ np.zeros((2, 3))",
    "pandas": "import pandas as pd\npd.DataFrame({'a': [1]}).loc['b']",
    "pandas of tensors": "import pandas as pd\npd.DataFrame({'a': torch.ones(2), 'b': torch.ones(3)})",
    "json": "import json\njson.loads('{')",
    "file": "open('/no/such/file')",
    "subprocess": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', '1/0'], check=True, stderr=-3)",
    "own": "class Stop(Exception):\n    pass\nraise Stop('size mismatch')",
    "own in forward": (
        "class Net(nn.Module):\n    def forward(self, x):\n        raise ValueError(f'bad shape {x.shape}')\n"
        "Net()(torch.ones(2))"
    ),
    "assertion": "x = torch.ones(2)\nassert x.shape == (3,), 'sizes differ'",
    "name": "x = torch.ones(2)\ny = x + undefined_name",
    "handler": NET + "try:\n    net(x)\nexcept RuntimeError as error:\n    print(erorr)",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)",
    "recursion of modules": (
        "class Net(nn.Module):\n    def forward(self, x):\n        return self(x.relu())\nNet()(torch.ones(1, 2))"
    ),
    "memory": "x = bytearray(2 ** 62)",
    "numpy memory": "import numpy as np\nnp.zeros(2 ** 60)",
    "empty message": "raise RuntimeError",
    "group": "raise ExceptionGroup('several', [ValueError('a'), RuntimeError('b')])",
    "no string": "class Odd(Exception):\n    def __str__(self):\n        raise TypeError\nraise Odd",
    "stop iteration": "next(iter(()))",
}
# Programs whose exception is explained although it is raised in an unusual place, with the code of the finding.
EXPLAINED = {
    "raised from": (
        NET + "try:\n    net(x)\nexcept RuntimeError as error:\n    raise ValueError('step 3') from error",
        "X1001",
    ),
    "raised again": (NET + "try:\n    net(x)\nexcept RuntimeError:\n    raise", "X1001"),
    "in handler": (NET + "try:\n    1 / 0\nexcept ZeroDivisionError:\n    net(x)", "X1001"),
    "in finally": (NET + "try:\n    pass\nfinally:\n    net(x)", "X1001"),
    "in with": (NET + "with torch.no_grad(), torch.autograd.profiler.record_function('a'):\n    net(x)", "X1001"),
    "in comprehension": (NET + "[net(row) for row in x]", "X1001"),
    "in lambda": (NET + "step = lambda value: net(value)\nstep(x)", "X1001"),
    "in generator": (NET + "def steps():\n    yield net(x)\nlist(steps())", "X1001"),
    "in decorated function": (
        NET + "def twice(f):\n    def run(*args):\n        return f(*args), f(*args)\n    return run\n"
        "@twice\ndef step(value):\n    return net(value)\nstep(x)",
        "X1001",
    ),
    "in thread": (
        NET + "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n"
        "    pool.submit(net, x).result()",
        "X1001",
    ),
    "in coroutine": (NET + "import asyncio\nasync def step():\n    return net(x)\nasyncio.run(step())", "X1001"),
    "in exec": (NET + "exec('out = net(x)')", "X1001"),
    "in hook": (NET + "good = nn.Linear(4, 4)\ngood.register_forward_hook(lambda m, i, o: net(o))\ngood(x)", "X1001"),
    "in property": (
        NET + "class Step:\n    @property\n    def loss(self):\n        return net(x)\nStep().loss",
        "X1001",
    ),
    "in map": (NET + "list(map(net, [x]))", "X1001"),
    "in sorted": (NET + "sorted([x, x], key=net)", "X1001"),
    "torch memory": ("x = torch.empty(2 ** 60)", "X1035"),
}


@pytest.mark.parametrize("name", NO_WORD)
def test_error_without_cause_in_torch_has_no_finding(tmp_path: Path, name: str) -> None:
    error, _, _ = raise_from(tmp_path, NO_WORD[name])
    report = nbdebug.explain_error(error)
    assert [finding.code for finding in report.findings] == []
    assert report.block() == ""
    assert report.not_checked == ()


@pytest.mark.parametrize("name", EXPLAINED)
def test_crash_in_unusual_place_is_explained(tmp_path: Path, name: str) -> None:
    program, code = EXPLAINED[name]
    error, _, _ = raise_from(tmp_path, program)
    report = nbdebug.explain_error(error)
    assert [finding.code for finding in report.findings[:1]] == [code]
    assert report.not_checked == ()
    assert str(report.findings[0].where)


def raised_error() -> RuntimeError:
    with pytest.raises(RuntimeError) as raised:
        nn.Linear(3, 1)(torch.ones(2, 4))
    return raised.value


def without_traceback() -> BaseException:
    return raised_error().with_traceback(None)


def with_cut_traceback() -> BaseException:
    """An exception whose frames of torch were cut off."""
    error = raised_error()
    if error.__traceback__ is not None:
        error.__traceback__.tb_next = None
    return error


def with_cyclic_cause() -> BaseException:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    return first


def with_cleared_frames() -> BaseException:
    error = raised_error()
    traceback.clear_frames(error.__traceback__)
    return error


@pytest.mark.parametrize(
    "make_error", [without_traceback, with_cut_traceback, with_cyclic_cause, with_cleared_frames, KeyboardInterrupt]
)
def test_exception_with_missing_parts_gives_report_without_failure(make_error: type[BaseException]) -> None:
    report = nbdebug.explain_error(make_error())
    assert report.not_checked == ()
    assert isinstance(str(report), str)
    assert report.view().html()


@pytest.mark.parametrize("text", ["", "x = (\n", "def f():\n    pass\n" * 40, "\0", "🙂" * 1000])
def test_source_edited_since_gives_no_edit(tmp_path: Path, text: str) -> None:
    error, _, path = raise_from(tmp_path, NET + "net(x)")
    path.write_text(text)
    linecache.checkcache()  # as a traceback does that is shown; before that, the source is the one that ran
    report = nbdebug.explain_error(error)
    assert [finding.edits for finding in report.findings if finding.edits] == []
    assert report.not_checked == ()


def test_deleted_source_is_no_failure(tmp_path: Path) -> None:
    error, _, path = raise_from(tmp_path, NET + "net(x)")
    path.unlink()
    assert nbdebug.explain_error(error).not_checked == ()


def test_rule_without_memory_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    error, _, _ = raise_from(tmp_path, NET + "net(x)")
    monkeypatch.setattr(torch, "empty_like", no_memory)  # by which copies on the meta device are made
    report = nbdebug.explain_error(error)
    assert report.findings[0].code == "X1001"
    assert "fix tried" not in report.findings[0].evidence


def test_reports_of_crashes_keep_no_frame(tmp_path: Path) -> None:
    error, variables, _ = raise_from(tmp_path, EXPLAINED["raised from"][0])
    report = nbdebug.explain_error(error)
    reference = weakref.ref(variables.pop("x"))
    del error, variables
    gc.collect()
    assert reference() is None
    assert report.findings[0].code == "X1001"


@pytest.mark.parametrize("step", [1, 3])
def test_crash_inside_watched_loop_names_step_and_keeps_record(tmp_path: Path, step: int) -> None:
    program = f"""
    import nbdebug
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    run = nbdebug.watch(net, optimizer)
    with run:
        for number in range(1, 5):
            optimizer.zero_grad()
            net(torch.randn(8, 5 if number == {step} else 4)).square().mean().backward()
            optimizer.step()
    """
    error, variables, _ = raise_from(tmp_path, program)
    report = nbdebug.explain_error(error)
    assert report.findings[0].code == "X1001"
    assert report.findings[0].where.step == step
    assert f"step {step}" in report.block()
    assert variables["run"].result.steps == step - 1
    assert not torch.nn.modules.module._global_forward_hooks
