"""Read and run a chapter without Sphinx: ``python vignettes/cells.py vignettes/01-getting-started.md``.

A chapter is Markdown with code cells and ``eval`` roles. ``read`` takes it apart into steps, in the order of the page, and into
prose, with everything that is not prose blanked out and every line still on its line. ``run`` executes the steps in one
namespace, as the site's kernel does: the last expression of a cell is shown, and figures are drawn and closed after each cell.
Tests use both; the environment variable ``RIESZ_FAST`` makes a chapter fast (see ``chapter.py``).
"""

from __future__ import annotations

import ast
import faulthandler
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: directives whose content is prose; of all others with back-ticks it is not
PROSE = {
    "admonition",
    "attention",
    "caution",
    "danger",
    "error",
    "hint",
    "important",
    "note",
    "seealso",
    "tip",
    "warning",
}

#: decimals that are no results: levels, quantiles and probabilities that everyone writes
CONVENTIONAL = {
    "0.01",
    "0.025",
    "0.05",
    "0.1",
    "0.2",
    "0.5",
    "0.8",
    "0.9",
    "0.95",
    "0.975",
    "0.99",
    "1.96",
    "2.5",
    "97.5",
}

_FENCE = re.compile(r"^\s*(?P<ticks>`{3,}|~{3,}|:{3,})\s*(?:\{(?P<directive>[^}]*)\})?")
_SPAN = re.compile(
    r"(?P<role>\{[\w:+-]+\})?(?P<ticks>`+)(?P<text>.+?)(?<!`)(?P=ticks)(?!`)"  # code and roles
    r"|\$\$.+?\$\$|(?<!\\)\$(?=\S).+?(?<![\s\\])\$"  # mathematics
    r"|\\begin\{(?P<name>\w+\*?)\}.+?\\end\{(?P=name)\}"
    r"|\]\([^)]*\)|<!--.*?-->|https?://\S+",  # where links lead, comments
    re.DOTALL,
)
_DECIMAL = re.compile(r"(?<![\w.,/-])[-+\N{MINUS SIGN}]?(?:\d+\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?![\w/]|\.\d)")
_CITED = re.compile(r"(?:[Vv]ersions?|Python|[Ss]ections?|[Tt]ables?|[Ff]igures?|[Ee]quations?|[Ee]xamples?)\s+$")


@dataclass(frozen=True)
class Step:
    """A code cell, or an expression inside prose.

    Attributes
    ----------
    kind : str
        ``"cell"`` or ``"eval"``.
    source : str
        The code.
    line : int
        The line of the file that it starts on, counted from 1.
    tags : frozenset of str
        A cell's tags.
    """

    kind: str
    source: str
    line: int
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Chapter:
    """A chapter taken apart.

    Attributes
    ----------
    steps : tuple of Step
        What is executed, in order.
    prose : str
        The file with code, roles, mathematics and the addresses of links blanked out, line for line.
    """

    steps: tuple[Step, ...]
    prose: str


def read(path: Path) -> Chapter:
    """Take a chapter apart."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept, steps, open_fences = list(lines), [], []
    number = _after_header(lines)
    kept[:number] = [""] * number
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if open_fences and line.strip() == open_fences[-1]:
            open_fences.pop()
            kept[number] = ""
        elif fence and (fence["ticks"].startswith(":") or fence["directive"] in PROSE):
            open_fences.append(fence["ticks"])
        elif fence:
            end = next((n for n in range(number + 1, len(lines)) if lines[n].strip() == fence["ticks"]), None)
            if end is None:
                raise ValueError(f"{path.name}:{number + 1}: this block is not closed")
            if fence["directive"] == "code-cell":
                if open_fences:
                    raise ValueError(
                        f"{path.name}:{number + 1}: a cell inside another block is not executed; move it out"
                    )
                steps.append(_cell(lines[number + 1 : end], number + 2))
            kept[number : end + 1] = [""] * (end + 1 - number)
            number = end
        elif line.startswith("%"):
            kept[number] = ""
        number += 1
    text = "\n".join(kept)
    for span in _SPAN.finditer(text):
        if span["role"] == "{eval}":
            steps.append(Step("eval", " ".join(span["text"].split()), 1 + text.count("\n", 0, span.start())))
    return Chapter(tuple(sorted(steps, key=lambda step: step.line)), _SPAN.sub(_blank, text))


def _after_header(lines: Sequence[str]) -> int:
    if not lines or lines[0] != "---":
        return 0
    return lines.index("---", 1) + 1


def _cell(body: Sequence[str], line: int) -> Step:
    """A cell from the lines between its fences: options come first, as ``:tags: [a, b]``."""
    options = 0
    while options < len(body) and body[options].startswith(":"):
        options += 1
    tags = frozenset(
        re.findall(r"[\w-]+", " ".join(o.split(":", 2)[2] for o in body[:options] if o.startswith(":tags:")))
    )
    return Step("cell", "\n".join(body[options:]), line + options, tags)


def _blank(span: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", span[0])


def typed_numbers(path: Path) -> list[str]:
    """Decimals and counts such as 9,275 that stand in the prose: ``"12: 0.73"``, the line and the number.

    Numbers that come from computation are written with the ``eval`` role. Allowed are conventional levels, round thousands,
    what follows a word such as "Table", and what a comment of the chapter quotes from elsewhere: ``% quoted: 0.094, 0.105``.
    """
    quoted = set(
        re.findall(r"[\d.,]*\d", " ".join(re.findall(r"^% quoted:(.*)", path.read_text("utf-8"), re.MULTILINE)))
    )
    found = []
    for number, line in enumerate(read(path).prose.splitlines(), 1):
        for match in _DECIMAL.finditer(line):
            value = match[0].lstrip("-+\N{MINUS SIGN}")
            rounded = value.endswith(",000") or value.endswith(",500")
            if not (value in CONVENTIONAL | quoted or rounded or _CITED.search(line[: match.start()])):
                found.append(f"{number}: {match[0]}")
    return found


class ChapterError(Exception):
    """A step failed; the message names the chapter, the line and what happened."""


def run(path: Path) -> int:
    """Execute a chapter and return how many steps it has."""
    namespace: dict[str, Any] = {"__name__": "__main__", "display": _show}
    steps = read(path).steps
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for quiet in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", quiet)
        for step in steps:
            try:
                with redirect_stdout(io.StringIO()):
                    _execute(step, path, namespace)
            except Exception as error:
                if "raises-exception" not in step.tags:
                    raise ChapterError(
                        f"{path.name}:{step.line}: this {step.kind} failed\n{_trace(error, path)}"
                    ) from error
    shown = list(_unexpected(caught))
    if shown:
        raise ChapterError(f"{path.name} shows warnings that no reader should see:\n" + "\n".join(shown))
    return len(steps)


def _execute(step: Step, path: Path, namespace: dict[str, Any]) -> None:
    # blank lines in front: tracebacks then name the chapter's own lines
    tree = ast.parse("\n" * (step.line - 1) + step.source, filename=str(path))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(path), "exec"), namespace)
    if last is not None:
        _show(eval(compile(ast.Expression(last.value), str(path), "eval"), namespace))
    _draw()


def _show(value: object) -> None:
    """What a notebook does with a value."""
    if value is None:
        return
    html = getattr(value, "_repr_html_", None)
    str(html()) if callable(html) else repr(value)


def _draw() -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    pyplot.close("all")


def _trace(error: Exception, path: Path) -> str:
    """The traceback from the chapter's line on."""
    frames = traceback.extract_tb(error.__traceback__)
    start = next((k for k, frame in enumerate(frames) if frame.filename == str(path)), 0)
    return "".join([*traceback.format_list(frames[start:]), *traceback.format_exception_only(error)])


def _unexpected(caught: Sequence[warnings.WarningMessage]) -> Iterator[str]:
    """Warnings other than riesz's own, which chapters may show on purpose."""
    from riesz import RieszWarning

    for warning in caught:
        if not issubclass(warning.category, RieszWarning) and "non-interactive" not in str(warning.message):
            yield f"{warning.filename}:{warning.lineno}: {warning.category.__name__}: {warning.message}"


def _cpu_time() -> float:
    """Seconds that this process, and those it has waited for, kept a core busy."""
    return sum(os.times()[:4])


def main(paths: Sequence[str], patience: float = 300.0) -> int:
    """Run chapters; say how long each took, in CPU seconds after the imports that all of them share."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot
    import torch  # noqa: F401

    import riesz  # noqa: F401

    sys.path.insert(0, str(Path(__file__).parent))
    for name in paths:
        path = Path(name)
        faulthandler.dump_traceback_later(patience, exit=True)
        start = _cpu_time()
        try:
            steps = run(path)
        except ChapterError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            faulthandler.cancel_dump_traceback_later()
        print(f"{path.name}: {steps} steps, {_cpu_time() - start:.1f} s of CPU time")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
