"""Settings that must precede the import of shap."""

import os

# Compiling with numba takes shap half a minute; the few small samples of these tests run at once without it.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
