"""What was recorded of a run: bounded in memory, one file on disk, readable without torch."""

from nbdebug.record.file import load as load
from nbdebug.record.names import NAMES as NAMES
from nbdebug.record.names import called as called
from nbdebug.record.record import Layer as Layer
from nbdebug.record.record import Record as Record

__all__ = ["NAMES", "Layer", "Record", "called", "load"]
