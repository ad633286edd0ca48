"""Import time that nbdebug adds to PyTorch.

    python benchmarks/import_time.py

Each import runs in a fresh interpreter; the imports alternate.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

ROUNDS = 7
IMPORTS = {
    "torch": "import torch",
    "torch, nbdebug": "import torch, nbdebug",
    "torch, nbdebug.Debugger": "import torch, nbdebug; nbdebug.Debugger",
}
TIMED_CODE = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def import_seconds(code: str) -> float:
    """Return the wall seconds of some imports in a fresh interpreter."""
    return float(subprocess.check_output([sys.executable, "-c", TIMED_CODE.format(code)], text=True))


def main() -> None:
    """Print the median seconds of each import, and its ratio and difference to torch alone."""
    rounds = [{name: import_seconds(code) for name, code in IMPORTS.items()} for _ in range(ROUNDS)]
    medians = {name: median(seconds[name] for seconds in rounds) for name in IMPORTS}
    baseline = medians["torch"]
    for name, seconds in medians.items():
        print(f"{name:26} {seconds:6.3f} s   x{seconds / baseline:.3f}   +{seconds - baseline:.3f} s")


if __name__ == "__main__":
    main()
