"""Tools of the Debugger, each in its own package or module."""
