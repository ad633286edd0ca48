"""What the tests of explanations need before anything is imported."""

import os

# shap compiles what it runs: half a minute for a few small samples, which Python does in no time.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
