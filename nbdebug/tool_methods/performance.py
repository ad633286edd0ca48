"""Tools that measure the time of training steps, as methods of a Debugger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbdebug.options import check_option_names
from nbdebug.tool_methods.tool_runner import ToolRunner

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.tools.profile import Profile


class PerformanceMethods(ToolRunner):
    """Each tool that measures time, run on the setup."""

    @check_option_names()
    def profile(
        self,
        train: Callable[[], Any] | None = None,
        *,
        steps: int = 30,
        try_changes: bool = False,
        trace: str | Path | None = None,
    ) -> Profile:
        """Measure where the time of a training step goes, which line costs most, and what each change would gain.

        Raises SetupError for a setup that cannot run, and for a ``train`` that makes fewer than four steps.

        Args:
            train: A function without arguments that runs your own loop; it is stopped after ``steps`` steps, and what
                it reads from variables is restored. By default a standard loop over the setup.
            steps: Number of steps to measure, at least 4.
            try_changes: Try bfloat16, channels-last, activation checkpointing, accumulation and ``torch.compile`` on
                copies, too, with their memory, which may take minutes.
            trace: A file, such as "trace.json", to which torch.profiler writes a trace of three more steps.
        """
        from nbdebug.tools.profile import profile

        result = profile(self._use_setup(), train, steps=steps, try_changes=try_changes, trace=trace)
        return self._keep("profile", result)
