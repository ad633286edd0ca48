"""The form of the message of every SetupError."""

from __future__ import annotations

import re

MESSAGE_FORM = re.compile(r"[^;]+; expected [^.]+\. [A-Z].*\.", re.DOTALL)
