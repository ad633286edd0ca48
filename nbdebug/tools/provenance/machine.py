"""Versions, hardware, settings and the state of the git repository."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch

_VARIABLES = (
    "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "TORCH_DEVICE_BACKEND_AUTOLOAD", "PYTORCH_CUDA_ALLOC_CONF", "TOKENIZERS_PARALLELISM",
)  # fmt: skip
_GIT_SECONDS = 10.0
_MAX_DIFF = 200_000  # characters


def versions() -> dict[str, str]:
    """Return the versions of Python and of each installed distribution, whether or not it is imported yet."""
    return {"python": platform.python_version(), **_installed_versions(tuple(map(_change_time, sys.path)))}


def _change_time(folder: str) -> tuple[str, int]:
    """Return a folder of packages with the time of its last change in ns, which an installation sets; -1 for none."""
    try:
        return folder, os.stat(folder or ".").st_mtime_ns
    except OSError:
        return folder, -1


@lru_cache(1)  # it reads a file of each distribution, which takes a tenth of a second for some hundreds
def _installed_versions(_: tuple[tuple[str, int], ...]) -> dict[str, str]:
    """Return the version of each distribution in the folders, in the order of their names."""
    facts = (item.metadata for item in distributions())
    installed = {fact["Name"]: fact["Version"] for fact in facts if fact["Name"]}
    return dict(sorted(installed.items(), key=lambda pair: pair[0].lower()))


def hardware() -> dict[str, Any]:
    """Return the system, the processor, the memory in GiB, and the accelerators with their libraries."""
    facts: dict[str, Any] = {
        "system": platform.platform(),
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "memory (GiB)": _memory(),
    }
    if torch.cuda.is_available():
        facts |= {"GPUs": _gpu_names(), "CUDA": torch.version.cuda, "cuDNN": torch.backends.cudnn.version()}  # type: ignore[no-untyped-call]
    if torch.backends.mps.is_available():
        facts["GPUs"] = ["mps"]
    return facts


def _gpu_names() -> list[str]:
    """Return the name of each GPU that torch may use.

    CUDA is not initialized for it, since a process cannot start workers by a fork afterwards. Its driver lists the
    names of all GPUs of the machine, which do not tell which of them are in use if they differ.
    """
    count = torch.cuda.device_count()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return [torch.cuda.get_device_name(index) for index in range(count)]
    texts = [path.read_text(encoding="utf-8") for path in Path("/proc/driver/nvidia/gpus").glob("*/information")]
    models = {match[1].strip() for text in texts if (match := re.search(r"^Model:(.*)$", text, re.MULTILINE))}
    return [models.pop() if len(models) == 1 else "GPU"] * count


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def settings() -> dict[str, Any]:
    """Return the numbers of threads, torch's global settings and seed, and the environment variables that matter."""
    facts: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "threads between operations": torch.get_num_interop_threads(),
        "default dtype": str(torch.get_default_dtype()),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "seed of torch": torch.initial_seed() if torch.initial_seed() < 2**32 else "none",
    }
    return facts | {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def git_state(folder: Path) -> dict[str, Any]:
    """Return commit, branch, the diff to the commit and the files outside of git; empty outside a repository."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    diff = _git(folder, "diff", "HEAD") or ""
    untracked = (_git(folder, "ls-files", "--others", "--exclude-standard") or "").splitlines()
    return {
        "commit": commit.strip(),
        "branch": (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip(),
        "diff": diff[:_MAX_DIFF],
        "files outside of git": untracked[:200],
    }


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def plain_config(config: Any) -> dict[str, Any]:
    """Return a configuration as a flat mapping from dotted names to plain values."""
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        config = vars(config) if hasattr(config, "__dict__") else {"value": config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) or (
            hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value)
        ):
            flat |= {f"{key}.{name}": inner for name, inner in plain_config(value).items()}
        else:
            flat[str(key)] = value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
    return flat
