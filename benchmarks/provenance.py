"""What every committed result file says about how it was made."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Sequence

PACKAGES = ("riesz", "numpy", "pandas", "scipy", "statsmodels", "formulaic", "torch")


def provenance(command: str, packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The command, the versions and the date."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return {
        "command": command,
        "date": datetime.date.today().isoformat(),
        "versions": f"Python {platform.python_version()}, {versions}",
    }
