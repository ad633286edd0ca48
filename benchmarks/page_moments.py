"""What the page of a watched run shows after six disturbances at ten moments of the run each, in JupyterLab.

    python benchmarks/page_moments.py [--disturbances reload,autosave] [--moments "step 1,paused"] [--json out.json]

A cell that has run before runs again and is held at a moment: with the watch open and no step, in the forward pass of
the first step, between two steps, in a backward or a validation pass, paused, at the end of the loop, and after the
cell. Then the page is reloaded, closed and reopened, its network is cut, a second tab opens, JupyterLab saves by
itself, or the kernel restarts. Three answers for each pair, of which one that is not true raises:

nothing lost   The page is as far as before. The result, the record and the file in the end have every step.
nothing stale  The page goes on with the run. Neither the earlier run nor a picture "as of step N" stands there.
Stop           Stop is there during the hold, and ends the run afterwards.

After a restart of the kernel, the picture says how far the run had got, on the page and on disk, without a button.
The network is cut by a proxy that closes all connections for three seconds. Each pair takes about ten seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from chromium import run_chromium

from tests.lab.run_moments import DISTURBANCES, MOMENTS, check_page
from tests.lab.server import run_server


def main() -> None:
    """Print a line per pair and the number of pairs without an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disturbances", default=",".join(DISTURBANCES), help="comma-separated")
    parser.add_argument("--moments", default=",".join(MOMENTS), help="comma-separated")
    parser.add_argument("--json", type=Path, help="write the answers to this file")
    options = parser.parse_args()
    pairs = [(d, m) for d in options.disturbances.split(",") for m in options.moments.split(",")]
    answers = {}
    with (
        run_chromium() as browser,
        tempfile.TemporaryDirectory() as folder,
        run_server(browser, Path(folder, "lab")) as lab,
    ):
        for number, (disturbance, moment) in enumerate(pairs):
            started = time.perf_counter()
            try:
                text, is_true = check_page(lab, f"moment{number}.ipynb", disturbance, moment), True
            except Exception as error:
                text, is_true = f"{type(error).__name__}: {error}", False
            answers[f"{disturbance}, {moment}"] = is_true
            seconds = time.perf_counter() - started
            print(
                f"{'true ' if is_true else 'FALSE'} {disturbance:16} {moment:22} {seconds:5.1f} s  {text}", flush=True
            )
    if options.json:
        options.json.write_text(json.dumps(answers, indent=1))
    print(f"{sum(answers.values())} of {len(answers)} pairs")
    sys.exit(not all(answers.values()))


if __name__ == "__main__":
    main()
