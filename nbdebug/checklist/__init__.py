"""The practical checklist for a training setup, walked on one's own model: dbg.guide()."""

from nbdebug.checklist.guide import Guide as Guide
