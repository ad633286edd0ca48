"""One question put to a set-up a file; each answers with a Result."""
