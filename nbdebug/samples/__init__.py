"""Samples as people see them: pictures, text, rows of a table, series, sound; fetched when they are asked for."""

from nbdebug.samples.samples import Samples as Samples

__all__ = ["Samples"]
