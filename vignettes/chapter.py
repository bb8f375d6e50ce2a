"""What every chapter shares: ``from chapter import FAST`` in its first, hidden cell.

``FAST`` is true when the environment variable ``RIESZ_FAST`` is set: tests then run a chapter in seconds, with few draws and a
default of small learners, so numbers differ from those of the site. Warnings show without the file they come from.
"""

from __future__ import annotations

import os
import warnings

import riesz

FAST = "RIESZ_FAST" in os.environ

warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\n"

if FAST:
    network = riesz.MADNet(width=16, head_width=8, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 5, 5),))
    riesz.defaults.learner = riesz.Stack([network, riesz.Splines(), riesz.Boosting(trees=20, boosters=1)])
