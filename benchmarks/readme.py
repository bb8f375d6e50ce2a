"""The README's example: runs its code, prints the output and, on request, puts it into the README.

python benchmarks/readme.py [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
from pathlib import Path

# with matrices this small, several threads would only slow each other down
os.environ.setdefault("OMP_NUM_THREADS", "1")

README = Path(__file__).parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)


def example(text: str) -> re.Match[str]:
    """The first Python block of the README and the output block that follows it."""
    match = EXAMPLE.search(text)
    if match is None:
        raise SystemExit(f"{README.name} must have a ```python block followed by a ```text block.")
    return match


def run(code: str) -> str:
    """The output that the code prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "readme"})
    return printed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the output into the README")
    write = parser.parse_args().write
    text = README.read_text()
    match = example(text)
    output = run(match["code"])
    print(output)
    if write:
        README.write_text(text[: match.start("output")] + output + text[match.end("output") :])


if __name__ == "__main__":
    main()
