"""Programs that raise, run from files as a user runs them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"


def raise_from(folder: Path, program: str) -> tuple[Exception, dict[str, Any], Path]:
    """Run a program from a file; return its exception, its variables and the file."""
    path = folder / "program.py"
    path.write_text(HEAD + textwrap.dedent(program))
    variables: dict[str, Any] = {"__name__": "program", "__file__": str(path)}
    try:
        exec(compile(path.read_text(), str(path), "exec"), variables)
    except Exception as error:
        return error, variables, path
    raise AssertionError("the program does not raise")
