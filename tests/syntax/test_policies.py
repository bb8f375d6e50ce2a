"""Policies as text; their safety is in test_safety.py."""

from __future__ import annotations

import subprocess
import sys


def test_policies_in_a_fresh_process() -> None:
    """numpy imports parts of itself when a function is first called; that must also work inside a policy."""
    code = (
        "import riesz; data = riesz.datasets.get('binary').draw(200, seed=1).data; mean = data['x1'].mean()\n"
        "fit = riesz.ape('y ~ treat(a) + x1', data, policy='clip(x1 > mean, 0.1, 0.9)', learner='linear', folds=2)\n"
        "print(fit.nobs)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "200", done.stderr
