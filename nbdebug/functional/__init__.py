"""Each tool as a function that needs no Debugger."""
