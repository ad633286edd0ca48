"""The arguments of a Debugger, read from the objects of a trainer."""
