"""The part of the published structure of SARIF 2.1.0 that nbdebug writes, as a JSON schema.

Names, types, required properties and choices are those of sections 3.13 to 3.52 of the OASIS standard. Each object
rejects properties that the standard does not define, and those that nbdebug has no use for.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def structure(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def items(schema: dict[str, Any], **limits: Any) -> dict[str, Any]:
    """Return the schema of an array."""
    return {"type": "array", "items": schema, **limits}


MESSAGE = structure(["text"], text=TEXT)
RULE = structure(["id"], id=TEXT, name=TEXT, shortDescription=MESSAGE, defaultConfiguration=structure([], level=LEVEL))
REGION = structure(["startLine"], startLine={"type": "integer", "minimum": 1}, snippet=MESSAGE)
PHYSICAL_LOCATION = structure(
    ["artifactLocation"],
    artifactLocation=structure([], uri={"type": "string", "pattern": r"^[^\s\\]+$"}),
    region=REGION,
)
LOCATION = structure(
    [],
    physicalLocation=PHYSICAL_LOCATION,
    logicalLocations=items(structure([], fullyQualifiedName=TEXT, kind=TEXT)),
)
RESULT = structure(
    ["message"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=LEVEL,
    message=MESSAGE,
    locations=items(LOCATION),
    relatedLocations=items(structure([], physicalLocation=PHYSICAL_LOCATION, message=MESSAGE)),
)
DRIVER = structure(["name"], name=TEXT, version=TEXT, rules=items(RULE, uniqueItems=True))
RUN = structure(
    ["tool"],
    tool=structure(["driver"], driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=items(RESULT),
)
LOG = {**structure(["version", "runs"], version={"enum": ["2.1.0"]}, runs=items(RUN)), "$id": "urn:sarif-log"}
LOG["properties"]["$schema"] = {"type": "string", "pattern": "sarif-2.1.0"}
