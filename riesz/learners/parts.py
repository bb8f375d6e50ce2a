"""Random parts of the rows of a design, for learners that hold some of their training rows out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riesz.crossfit.folds import Labels, draw_labels
from riesz.design.design import Design


def parts_of_rows(design: Design, parts: int, seed: int | Sequence[int], fewest_clusters: int | None = None) -> Labels:
    """The part of each row, shape (n,): arms are spread evenly, and clusters are kept whole.

    With fewer clusters than ``fewest_clusters``, by default one for each part, rows are drawn without regard to clusters.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.learners.parts import parts_of_rows
    >>> data = riesz.datasets.get("binary").draw(90, seed=1).data.assign(village=np.arange(90) // 45)
    >>> fit = riesz.ate("y ~ treat(a) + x1", data, learner="linear", cluster="village", folds=2)
    >>> np.bincount(parts_of_rows(fit.model.blueprint.design, 3, seed=1)).tolist()
    [30, 30, 30]
    """
    groups = None if design.groups is None else np.unique(design.groups, return_inverse=True)[1].astype(np.intp)
    if groups is not None and groups.max(initial=0) + 1 < (fewest_clusters or parts):
        groups = None
    return draw_labels(len(design), parts, design.strata, groups, np.random.default_rng(seed))
