"""Tools that check whether results can be repeated and trusted, as methods of a Debugger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdebug.options import check_option_names
from nbdebug.tool_methods.tool_runner import ToolRunner

if TYPE_CHECKING:
    from nbdebug.tools.repeatable import Repeatable


class RepeatabilityMethods(ToolRunner):
    """Each tool about repeatability, run on the setup."""

    @check_option_names()
    def repeatable(self, *, steps: int = 20) -> Repeatable:
        """Check whether training can be repeated: run it twice, and name the first difference and its source.

        Both runs start from the present state, and everything is restored. Raises SetupError for a setup that cannot
        be run.

        Args:
            steps: Number of training steps of each run, up to 1000.
        """
        from nbdebug.tools.repeatable import repeatable

        return self._keep("repeatable", repeatable(self._use_setup(), steps=steps))
