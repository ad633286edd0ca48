"""Views of results: HTML pages, widgets, charts and tables."""
