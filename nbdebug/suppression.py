"""A comment in the user's source, ``# nbdebug: ignore[L201]``, for a finding on its line that is meant to be there."""

from __future__ import annotations

import re

from nbdebug.finding import Finding

COMMENT = re.compile(r"#\s*nbdebug:\s*ignore\[([^\]]*)\]")


def is_ignored(finding: Finding) -> bool:
    """Whether the line of a finding names its code, or the beginning of it, in a comment."""
    comments = COMMENT.findall(finding.where.source or "")
    codes = [code.strip() for comment in comments for code in comment.split(",")]
    return any(code and finding.code.startswith(code) for code in codes)
