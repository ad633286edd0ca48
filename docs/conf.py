"""Settings of Sphinx for the site, which `make docs` builds from the pages that docs/site_pages.py writes."""

import nbdebug

project = "nbdebug"
author = "the nbdebug authors"
version = release = nbdebug.__version__
root_doc = "index"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# The committed outputs of the notebooks are shown; widgets would load scripts from the network.
nb_execution_mode = "off"
nb_ipywidgets_js = {}
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a notebook may begin with a small heading

# A page or a heading that is missing is a warning. Types are not links: those of torch are described elsewhere.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
html_theme = "furo"
html_title = "nbdebug"
html_extra_path = ["../build/docs-source/extra"]
html_copy_source = False
html_show_copyright = False
