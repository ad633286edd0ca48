"""axe-core, which finds barriers to people who use a keyboard or a screen reader, run on pages of the browser tests.

npx fetches it, as it fetches the TypeScript of `make types`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.browser import skip_browser_test

PACKAGE = "axe-core@4.14.1"
# Rules of WCAG 2.2 up to AA, and good practice; those about a whole page do not apply to a view, which is part of one.
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


@cache
def axe_script() -> str:
    """The script of axe-core; skips the test if npx is missing."""
    if not shutil.which("npx"):
        skip_browser_test("npx, which fetches axe-core, is not installed")
    command = ["npx", "--yes", "--package", PACKAGE, "--call", "node -p process.env.PATH"]
    path = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    modules = Path(path.partition(os.pathsep)[0]).parent
    return (modules / "axe-core/axe.min.js").read_text(encoding="utf-8")


def find_barriers(page: Any) -> list[str]:
    """One line for each barrier in the views of a page: impact, rule, element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_script())
    options = {"runOnly": list(TAGS), "resultTypes": ["violations"]}
    found = page.evaluate("(options) => axe.run('.nbdebug', options)", options)["violations"]
    return [f"{rule['impact']} {rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]
