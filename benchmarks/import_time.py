"""What importing the debugger adds to importing torch: each import in a fresh interpreter, in turns, in one run.

python benchmarks/import_time.py
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

ROUNDS = 7
SUBJECTS = {
    "torch": "import torch",
    "torch, nbdebug": "import torch, nbdebug",
    "torch, nbdebug.Debugger": "import torch, nbdebug; nbdebug.Debugger",
}
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def seconds(code: str) -> float:
    """The time of some imports in an interpreter of their own."""
    return float(subprocess.check_output([sys.executable, "-c", TIMED.format(code)], text=True))


def main() -> None:
    """One line for each subject: median seconds, and the ratio to torch alone."""
    rounds = [{name: seconds(code) for name, code in SUBJECTS.items()} for _ in range(ROUNDS)]
    alone = median(one["torch"] for one in rounds)
    for name in SUBJECTS:
        found = median(one[name] for one in rounds)
        print(f"{name:26} {found:6.3f} s   x{found / alone:.3f}   +{found - alone:.3f} s")


if __name__ == "__main__":
    main()
