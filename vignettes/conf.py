"""How the site is built: ``make docs``."""

import sys
from pathlib import Path

from sphinx.errors import ConfigError
from sphinx.util.logging import getLogger

import riesz

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from registered import expand  # noqa: E402

FETCHED = HERE.parent / "build" / "static"  # MathJax, put there by fetch_mathjax.py
if not (FETCHED / "mathjax").exists():
    raise ConfigError("MathJax is missing: run `make docs`, or python vignettes/fetch_mathjax.py build/static")

project = "riesz"
author = "The riesz developers"
copyright = author
version = release = riesz.__version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["*.py", "__pycache__"]

# chapters: executed while they are rendered, so that prose can show what the cells above it computed; a failing cell is a warning
# with its traceback, so that the other chapters still run before the build fails
nb_execution_mode = "inline"
nb_eval_name_regex = r"^.+$"
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_code_prompt_show = "Show code"
nb_code_prompt_hide = "Hide code"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# reference: from docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
nitpicky = True  # a link to a name of riesz must lead somewhere; other packages' names are plain text
nitpick_ignore_regex = [("py:.*", r"(?!riesz\.).*")]

# mathematics: a local MathJax that breaks long formulas at narrow pages
mathjax_path = "mathjax/tex-svg.js"
mathjax_config_path = "_static/wide.js"
mathjax4_config = {
    "loader": {"load": ["a11y/assistive-mml"]},
    "output": {"displayOverflow": "linebreak", "linebreaks": {"inline": True}},
    "options": {
        "enableMenu": False,
        "menuOptions": {"settings": {"enrich": False, "speech": False, "braille": False, "assistiveMml": True}},
    },
}

html_theme = "furo"
html_title = "riesz"
html_favicon = "_static/icon.svg"
html_static_path = ["_static", str(FETCHED)]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f4e79", "color-brand-content": "#1f5f99"},
    "dark_css_variables": {"color-brand-primary": "#8ab8e6", "color-brand-content": "#8ab8e6"},
    "navigation_with_keys": True,
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


def setup(app):
    """Lists of registered parts, and three things that myst-nb does not do."""
    app.connect("source-read", _list_registered)
    app.connect("source-read", _execute_in_place)
    app.connect("env-get-outdated", _run_again)
    app.connect("build-finished", _say_how_chapters_ran)


def _list_registered(app, docname, source):
    """Reference pages list what is registered."""
    if docname.startswith("reference/"):
        source[0] = expand(source[0])


def _execute_in_place(app, docname, source):
    """Cells tagged remove-cell run where they stand; myst-nb would wait for the next cell that shows, too late for prose."""
    source[0] = source[0].replace(":tags: [remove-cell]", ":tags: [remove-input, remove-output]")


def _run_again(app, env, added, changed, removed):
    """Chapters that failed, or ran before the package last changed."""
    newest = max(path.stat().st_mtime for path in [HERE / "chapter.py", *Path(riesz.__file__).parent.rglob("*.py")])
    return [name for name, run in _runs(env).items() if not run["succeeded"] or run["mtime"] < newest]


def _say_how_chapters_ran(app, error):
    """How long each chapter took; a chapter that failed fails the build, also without -W."""
    if error is not None:
        return
    for name, run in _runs(app.env).items():
        getLogger(__name__).info("%-20s %6.1f s%s", name, run["runtime"], "" if run["succeeded"] else ", failed")
    failed = [name for name, run in _runs(app.env).items() if not run["succeeded"]]
    if failed:
        getLogger(__name__).error("A cell failed in %s; its traceback is above.", ", ".join(failed))
        app.statuscode = 1


def _runs(env):
    about = getattr(env, "nb_metadata", {})
    return {name: about[name]["exec_data"] for name in sorted(about) if "exec_data" in about[name]}
