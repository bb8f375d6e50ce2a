"""MADNet: the paper's network as a learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from riesz.design.design import Design
from riesz.errors import LearnerError
from riesz.families import MEANS
from riesz.learners.check_settings import check_settings
from riesz.learners.expected_time import MANY, network_seconds
from riesz.learners.neural.base import PAPER_SETTINGS, PAPER_STAGES, NetworkLearner
from riesz.learners.neural.engine.schedule import Keep, Stage
from riesz.learners.neural.engine.train_together import check_design, outcome_layers
from riesz.learners.neural.objectives.moment_constrained import MomentConstrained
from riesz.storage.coding import stored

_FEW = 2000  # up to this many rows or clusters folds are drawn more than once


@stored
@dataclass(frozen=True, kw_only=True)
class MADNet(NetworkLearner):
    """Moment-constrained automatic debiasing network: one network learns mu and beta_perp jointly.

    With splines and boosted trees it makes up the default :class:`~riesz.Stack` of all verbs, where one network is trained on each
    training set.

    The network uses the raw treatment (indicators for several arms) and the formula's columns that do not involve the
    treatment, so a formula need not spell interactions out. Derivatives are exact. The folds and repeats of a fit are
    trained side by side. Settings are keyword arguments.

    Parameters
    ----------
    architecture : {"multihead", "fully_connected"}
        A shared body with separate outcome heads, or outputs that are all linear in the body.
    width, depth, head_width, head_depth : int
        Hidden layers of the body and of each outcome head.
    constraint : {"absolute", "multiplier", "exact"}
        How h_n(beta_perp) = 0 is enforced: the paper's absolute penalty; a Lagrange multiplier learned by ascent, with
        damping (it oscillates when damping is low); or trained like ``"absolute"`` and then solved in closed form for the
        last layer. The last helps most after short training or with few rows; see the notes.
    penalty : float
        Weight of the constraint, relative to the anchor's size; exact in the limit once it exceeds 2.
    growth : float
        The penalty is multiplied by this after every epoch, until it is a million times as large. Validation losses are computed
        with the first penalty, so that they can be compared.
    rho : float
        Weight of the outcome's loss.
    damping, ascent : float
        Damping and step size of the multiplier method.
    stages : tuple of Stage
        Learning rates, epochs and patience, one stage after the other.
    batch_size : int
    weight_decay : float
        Decoupled (AdamW).
    momentum : float
        Adam's beta_1: the share that the running average of the gradients keeps at each step.
    bias_learning_rate : float, optional
        Learning rate of the output biases of all outcome heads but the first, that is, of the treatment's main effect on mu; by
        default that of the stage.
    keep : {"best", "each", "last"}
        Weights kept: those with the best validation loss; for mu those with the best outcome loss and for rr those with the
        best remaining loss (training continues until neither improves); or the last.
    inputs : {"standard", "paper"}
        ``"standard"``: standardise everything, dummies by their range, and add an indicator for each mass point of a covariate
        (a value with at least 5% of the weight, unless there are only two values). ``"paper"``: as the paper's code does, scale
        only the treatment and the outcome.
    networks : int
        Networks for each training set, whose predictions are averaged; each holds out different rows for validation.
    most_rows : int, optional
        A network learns from at most this many rows of a training set, drawn at random; None for all.
    repeats : int, optional
        How often cross-fitting is done, each time with new folds, if a verb is not given ``repeats``; by default three times with
        up to 2000 rows (clusters, if there are any), and once with more.
    validation : float
        Share of a training set that is held out to decide when to stop, rounded to one over a whole number: 0.3 means a third.
        Clusters stay whole, unless there are too few for every arm to be on both sides.
    redraw : bool
        Whether each stage draws new validation rows, as the paper's code does. Most of them were training rows in an earlier
        stage, so that later stages end sooner.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    side_by_side : int, optional
        Networks trained at the same time, at most; by default as many as fit into the processor's cache. Affects only speed.

    Notes
    -----
    Two small networks are trained on each training set, each with a different fifth of the rows held out to decide when to stop,
    and averaged. Cross-fitting is done three times with new folds, and the median of the estimates is reported: repeats reduce the
    randomness of folds and starting values more than additional networks on the same folds do. With 1000 rows one repeat differs
    from the next by a fifth to a quarter of a standard error, with 4000 by a tenth; so more than 2000 rows (or clusters) are split
    only once.

    Networks need many rows to learn curves: with a thousand rows, closed forms on splines (:class:`~riesz.Splines`) are often more
    accurate if mu is nearly additive, and networks if it is not.

    ``constraint="exact"`` was measured with one network and two folds (``benchmarks/constraints.py``). For a
    derivative it lowers rr's squared error by a sixth to a fifth with 1000 rows, however long networks train. For an ATE it
    lowers that error by a tenth after five epochs and raises it by 2 to 8% after long training. The one-step estimate's error is
    12 to 27% smaller for the ATE, with 300 and with 1000 rows; for the derivative it is 5 to 15% smaller with 300 rows and the
    same with 1000. It costs one small regression per network.

    For a quantile (:class:`~riesz.Quantile`) the network learns by the pinball loss, and rr's last layer is always solved in closed
    form, with squares weighted by the density at the quantile.

    These settings were chosen by hand, on a few draws of each simulation of ``riesz.datasets`` (n = 1000, some n = 4000) and on
    IHDP data sets 0 to 99. What made a difference there, as mean absolute error on IHDP 0 to 95, networks alone, five folds:
    dummies divided by their range instead of their standard deviation (0.122 to 0.114), outcome heads two layers deep (to 0.105).
    A patience of 5 epochs is as good as 10 with 4000 rows, but not with 600. Tried and
    dropped: wider and deeper bodies and a smaller learning rate (the same error in up to three times the time), ten times less
    weight decay (no better), spline inputs for the networks and a second stage of fine-tuning (no difference).

    References
    ----------
    Hines and Hines, "Automatic debiasing of neural networks via moment-constrained learning".

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> quick = riesz.MADNet(width=16, head_width=8, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 5, 5),))
    >>> fit = riesz.ate("y ~ treat(a) + .", data, learner=quick, folds=2)
    >>> fit.tidy()[["term", "estimate", "std_error"]].round(1)
      term  estimate  std_error
    0  ATE       1.6        0.2
    """

    families: ClassVar[tuple[str, ...]] = (*MEANS, "quantile")
    keeps: ClassVar[tuple[Keep, ...]] = ("best", "each", "last")

    architecture: Literal["multihead", "fully_connected"] = "multihead"
    width: int = 64
    head_width: int = 32
    head_depth: int = 2
    constraint: Literal["absolute", "multiplier", "exact"] = "absolute"
    penalty: float = 5.0
    growth: float = 1.0
    rho: float = 1.0
    damping: float = 1.0
    ascent: float = 0.01
    stages: tuple[Stage, ...] = (Stage(3e-3, 100),)
    weight_decay: float = 0.1
    keep: Keep = "each"
    networks: int = 2
    most_rows: int | None = 20_000
    repeats: int | None = None

    @classmethod
    def paper(cls, benchmark: Literal["ate", "ade"] = "ate", **changes: Any) -> MADNet:
        """The paper's settings for its ATE or its ADE benchmark; keyword arguments change individual ones.

        They are those of its supplement, read with the authors' published code where the two differ: the outcome is centred as
        well as scaled, the larger learning rate belongs to the treatment's main effect (a term psi a of mu), each stage
        counts its patience from zero and draws new validation rows (``redraw=True``), and Adam has almost no momentum (the code
        passes 0.001 as momentum where the supplement has a weight decay of 0.001, which changes almost nothing).

        Examples
        --------
        >>> import riesz
        >>> riesz.MADNet.paper("ade").stages[0].learning_rate
        0.001
        """
        if benchmark not in PAPER_STAGES:
            raise LearnerError(f"MADNet.paper({benchmark!r}): expected 'ate' or 'ade'.")
        settings: dict[str, Any] = {**PAPER_SETTINGS, "stages": PAPER_STAGES[benchmark]}
        preset = cls(**settings, bias_learning_rate=0.9, repeats=1)
        return replace(preset, **changes)

    def _check_own_settings(self) -> None:
        choices = {
            "architecture": ("multihead", "fully_connected"),
            "constraint": ("absolute", "multiplier", "exact"),
        }
        numbers = ("penalty", "growth", "rho", "damping", "ascent")
        whole_numbers = ("head_width", "head_depth", *(() if self.repeats is None else ("repeats",)))
        check_settings(self, choices, whole_numbers, numbers)

    def usual_repeats(self, units: int) -> int:
        return self.repeats or (3 if units <= _FEW else 1)

    def seconds(self, design: Design, rows: int) -> float:
        inputs = len(design.covariates)
        return self.networks * network_seconds(rows, inputs, self.width) if inputs >= MANY else 0.0

    def check(self, design: Design, rows: int) -> None:
        check_design(design, rows, self.device, "MADNet")

    def describe(self, family: str) -> str:
        defaults = (MADNet.architecture, MADNet.constraint)
        changed = [word.replace("_", " ") for word in (self.architecture, self.constraint) if word not in defaults]
        return "MADNet" + (f" ({', '.join(changed)})" if changed else "")

    def _outcome_layers(self) -> tuple[int, int]:
        return outcome_layers(self.architecture, self.head_width, self.head_depth)

    def objective(self, family: str) -> MomentConstrained:
        return MomentConstrained(
            family=family,
            constraint="multiplier" if self.constraint == "multiplier" else "absolute",
            penalty=self.penalty,
            growth=self.growth,
            rho=self.rho,
            damping=self.damping,
            ascent=self.ascent,
            exact=self.constraint == "exact",
        )
