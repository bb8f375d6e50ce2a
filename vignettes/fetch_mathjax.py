"""Fetch MathJax once, so that the site shows mathematics without a network: ``python vignettes/fetch_mathjax.py build/static``.

Two npm packages of one version: the bundle that draws formulas as SVG with TeX's letters built in (so there are no fonts to
load), and the extensions that MathJax loads by itself when a formula wants one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.1.1"

#: package to {member or folder in it: where it goes}
WANTED = {
    f"@mathjax/mathjax-tex-font@{VERSION}": {"package/tex-mml-svg-mathjax-tex.js": "tex-svg.js"},
    f"mathjax@{VERSION}": {
        "package/a11y/assistive-mml.js": "a11y/assistive-mml.js",
        "package/input/tex/extensions/": "input/tex/extensions/",
        "package/LICENSE": "LICENSE",
    },
}


def fetch(folder: Path) -> None:
    """Put MathJax into ``folder/mathjax``; it appears there complete or not at all."""
    if shutil.which("npm") is None:
        sys.exit(
            "The site's MathJax comes from npm, which was not found. Install Node.js (npm comes with it), or copy "
            f"{folder / 'mathjax'} from a machine that has built the site."
        )
    with tempfile.TemporaryDirectory() as scratch:
        complete = Path(scratch) / "mathjax"
        for package, members in WANTED.items():
            _unpack(_pack(package, Path(scratch)), members, complete)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "mathjax", ignore_errors=True)
        shutil.move(complete, folder / "mathjax")


def _pack(package: str, scratch: Path) -> Path:
    done = subprocess.run(
        ["npm", "pack", "--loglevel=error", package], cwd=scratch, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"npm could not fetch {package}; the site needs the network for this once.\n{done.stderr}")
    return scratch / done.stdout.split()[-1]


def _unpack(archive: Path, members: dict[str, str], target: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            for source, place in members.items():
                if member.isfile() and member.name.startswith(source):
                    path = target / (place + member.name.removeprefix(source))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tar.extractfile(member).read())


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
