"""Findings as JSON in a versioned schema, as SARIF and as annotations of GitHub."""
