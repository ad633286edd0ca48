"""Two models or setups that ought to compute the same: the first module and operation at which they part."""

from __future__ import annotations

from nbdebug.tools.agreement.data_parallel import DataParallel as DataParallel
from nbdebug.tools.agreement.data_parallel import compare_processes as compare_processes
from nbdebug.tools.agreement.result import Agreement as Agreement
from nbdebug.tools.agreement.tool import compare_computations as compare_computations

__all__ = ["Agreement", "DataParallel", "compare_computations", "compare_processes"]
