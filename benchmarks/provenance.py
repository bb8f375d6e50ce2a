"""Writes result files with their provenance: command, date and versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("riesz", "numpy", "pandas", "scipy", "statsmodels", "formulaic", "torch")


def record(file: Path, command: str, facts: Mapping[str, Any], packages: Sequence[str] = PACKAGES) -> None:
    """Write facts with the command, the date and the versions; a file with the same facts keeps its date."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    provenance = {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "versions": f"Python {platform.python_version()}, {versions}",
    }
    earlier = json.loads(file.read_text()) if file.exists() else {}
    if {**earlier, **provenance} != {**provenance, **facts} or earlier["command"] != command:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({**provenance, **facts}, indent=2) + "\n")
