"""Texts that run a script if a page inserts them as markup."""

from __future__ import annotations

HOSTILE_TEXT = '</script><img src=x onerror="window.broken = true"><!--<script>'
HOSTILE_HTML = '<script>window.hit = 1</script><img src=x onerror="window.hit = 1">"\'&'
HOSTILE_NAME = "<img src=x onerror=window.hit=1>"
