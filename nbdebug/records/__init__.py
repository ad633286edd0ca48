"""Record of a run: bounded in memory, one file on disk, readable without torch."""

from __future__ import annotations

from nbdebug.records.record import SIGNAL_LABELS as SIGNAL_LABELS
from nbdebug.records.record import Record as Record
from nbdebug.records.record import RecordedModule as RecordedModule
from nbdebug.records.record import RecordReader as RecordReader
from nbdebug.records.record import load as load
from nbdebug.records.record import signal_label as signal_label

__all__ = ["SIGNAL_LABELS", "Record", "RecordReader", "RecordedModule", "load", "signal_label"]
