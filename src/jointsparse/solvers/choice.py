r"""Solvers as values: which algorithm, with which tolerances, for which losses and penalties.

``solver.solve(loss, penalties, start=None)`` minimises :math:`f(\Omega)+\sum_kP_k(\Omega)` for a
loss that knows its samples. What a solver cannot do, ``requires`` says: the methods that every
penalty must have, beside ``value``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from jointsparse.losses.sample_norms import SampleNormLossOn
from jointsparse.losses.squared import SquaredLossOn
from jointsparse.penalties import L21, Nuclear, Trace
from jointsparse.solvers.convex.composed import solve_composed
from jointsparse.solvers.convex.exact import solve_scatter
from jointsparse.solvers.convex.published import factor_of_scatter, solve_published
from jointsparse.solvers.convex.splitting import solve_splitting
from jointsparse.solvers.samples.cone import solve_samples
from jointsparse.solvers.samples.free import solve_samples_free
from jointsparse.solvers.solution import Rounding, Solution, proven
from jointsparse.solvers.wide.convex import solve_wide


class Solver(Protocol):
    """What :func:`jointsparse.solve` asks of a solver.

    Attributes
    ----------
    requires : tuple of str
        Methods that it calls of every penalty, beside ``value``.
    """

    requires: ClassVar[tuple[str, ...]]

    def solve(self, loss: Any, penalties: Sequence[Any], *, start: Any = None) -> Solution:
        """Minimise a loss on some samples and penalties."""
        ...


@dataclass(frozen=True)
class _Certified:
    """What the solvers with a proof have in common: the gap to reach, and when to give up."""

    tol: float = 1e-4
    max_iter: int = 1000
    requires: ClassVar[tuple[str, ...]] = ("prox", "polar")


@dataclass(frozen=True)
class Splitting(_Certified):
    r"""Operator splitting on p × p matrices: any penalties, a proof for the answer.

    Each penalty has its own copy of Ω; the copies are made to agree. With the squared loss any
    penalties will do that have a proximal step and a polar (or a conjugate); with the sum of
    residual lengths the penalties are ``L21`` with, or without, ``Trace`` or ``Nuclear``.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach, rounding included.
    max_iter : int
        Iteration limit.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import solve
    >>> from jointsparse.penalties import L21, Trace
    >>> from jointsparse.solvers import Splitting
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> X[:, 1] = X[:, 0]
    >>> found = solve(X, penalties=(L21(60.0), Trace(90.0)), solver=Splitting(tol=1e-8))
    >>> found.converged, (found.loadings != 0).any(axis=1).tolist()
    (True, [True, True, False, True, False, False])
    """

    def solve(self, loss: Any, penalties: Sequence[Any], *, start: Any = None) -> Solution:
        """Minimise a loss on some samples and penalties."""
        del start  # a cold start is as fast, but for paths, which have their own way
        known = _l21_and(Trace, penalties)
        known = known if known is not None and sum(known) > 0 else None  # steps are in their unit
        if isinstance(loss, SampleNormLossOn):
            return self._of_samples(loss, penalties)
        if not isinstance(loss, SquaredLossOn):
            raise TypeError(f"Splitting takes SquaredLoss or SampleNormLoss, not {_named(loss)}")

        def to(tol: float) -> Solution:
            if known is not None:
                return solve_splitting(loss.spectrum, *known, tol=tol, max_iter=self.max_iter)
            return solve_composed(loss, penalties, tol=tol, max_iter=self.max_iter)

        return proven(to, self.tol, _rounding(loss, penalties))

    def _of_samples(self, loss: SampleNormLossOn, penalties: Sequence[Any]) -> Solution:
        known = _l21_and(Trace, penalties) or _l21_and(Nuclear, penalties)
        if known is None or known[0] == 0:
            raise TypeError(
                "with SampleNormLoss, Splitting takes the penalties L21, and Trace or Nuclear "
                f"beside it; got {', '.join(map(_named, penalties))}"
            )
        if loss.free_mean and known[1] > 0:
            raise TypeError("with a free mean the penalty is L21, on the cone with Trace(0)")
        on_cone = any(isinstance(penalty, Trace) for penalty in penalties)

        def to(tol: float) -> Solution:
            lam, eta = known
            limits: Any = {"free_mean": loss.free_mean, "tol": tol, "max_iter": self.max_iter}
            if on_cone:
                return solve_samples(loss.data, loss.spectrum, lam, eta, **limits)
            return solve_samples_free(loss.data, lam, eta, **limits)

        size = loss.value(0 * loss.spectrum.vectors @ loss.spectrum.vectors.T)
        terms = loss.moments.n_samples * loss.n_features
        return proven(to, self.tol, Rounding(terms, size, size / sum(known)))


@dataclass(frozen=True)
class Factored(_Certified):
    """A low-rank factor in place of Ω: no p × p matrix, for many features and few directions.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach, rounding included.
    max_iter : int
        Iteration limit.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import solve
    >>> from jointsparse.penalties import L21, Trace
    >>> from jointsparse.solvers import Factored
    >>> X = np.random.default_rng(0).standard_normal((20, 400))
    >>> found = solve(X, penalties=(L21(10.0), Trace(400.0)), solver=Factored())
    >>> found.gap < 1e-4
    True
    """

    def solve(self, loss: Any, penalties: Sequence[Any], *, start: Any = None) -> Solution:
        """Minimise the squared loss on some samples, with L21 and Trace."""
        lam, eta = _squared_l21_trace("Factored", loss, penalties)
        moments = loss.moments
        data = moments.native.centred_data if moments.has_samples else None
        if data is None:
            data = factor_of_scatter(loss.spectrum)

        def to(tol: float) -> Solution:
            return solve_wide(data, lam, eta, tol=tol, max_iter=self.max_iter, start=start)

        return proven(to, self.tol, _rounding(loss, penalties))


@dataclass(frozen=True)
class Exact(_Certified):
    """Screen features, then take the faster of the certified solvers for the squared loss.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach, rounding included.
    max_iter : int
        Iteration limit.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import solve
    >>> from jointsparse.penalties import L21, Trace
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> solve(X, penalties=(L21(1e3), Trace(1.0)), solver="exact").reason
    'the penalties empty the model: every feature is proved to be zero'
    """

    def solve(self, loss: Any, penalties: Sequence[Any], *, start: Any = None) -> Solution:
        """Minimise the squared loss on some samples, with L21 and Trace."""
        lam, eta = _squared_l21_trace("Exact", loss, penalties)
        if lam + eta == 0:  # nothing to screen by
            return Splitting(self.tol, self.max_iter).solve(loss, penalties)

        def to(tol: float) -> Solution:
            return solve_scatter(
                loss.moments.native.scatter,
                lam,
                eta,
                spectrum=lambda: loss.spectrum,
                tol=tol,
                max_iter=self.max_iter,
                start=start,
            )

        return proven(to, self.tol, _rounding(loss, penalties))


@dataclass(frozen=True)
class Published:
    """The published reweighting of source 004, without a proof and without exact zeros.

    Parameters
    ----------
    constants : {"authors", "paper"}
        Smoothing, ridge and stopping rule: those of the authors' program or small ones relative to
        the data.
    tol : float
        Relative change of the objective at which to stop, with the paper's constants.
    max_iter : int
        Iteration limit.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import solve
    >>> from jointsparse.penalties import L21, Trace
    >>> from jointsparse.solvers import Published
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> solve(X, penalties=(L21(10.0), Trace(60.0)), solver=Published()).gap is None
    True
    """

    constants: str = "authors"
    tol: float = 1e-4
    max_iter: int = 1000
    requires: ClassVar[tuple[str, ...]] = ("weights",)

    def solve(self, loss: Any, penalties: Sequence[Any], *, start: Any = None) -> Solution:
        """Run the published iteration for the squared loss with L21 and Trace."""
        lam, eta = _squared_l21_trace("Published", loss, penalties)
        return solve_published(
            factor_of_scatter(loss.spectrum),
            lam,
            eta,
            n_samples=loss.moments.n_samples,
            start=start,
            constants=self.constants,
            tol=self.tol,
            max_iter=self.max_iter,
        )


def check_requirements(solver: Any, penalties: Sequence[Any]) -> None:
    """Refuse penalties that lack what a solver calls; ``Trace`` needs no weights.

    A conjugate stands for a polar.
    """
    for penalty in penalties:
        for name in ("value", *solver.requires):
            stands_in = name == "polar" and hasattr(penalty, "conjugate")
            spared = name == "weights" and isinstance(penalty, Trace | Nuclear)
            if not (hasattr(penalty, name) or stands_in or spared):
                raise TypeError(
                    f"{_named(solver)} calls {name}() of every penalty, and {_named(penalty)} has "
                    "none: choose another solver, or give the penalty one"
                )


def _squared_l21_trace(solver: str, loss: Any, penalties: Sequence[Any]) -> tuple[float, float]:
    known = _l21_and(Trace, penalties) if isinstance(loss, SquaredLossOn) else None
    if known is None:
        raise TypeError(
            f"{solver} takes SquaredLoss with the penalties L21 and Trace; got {_named(loss)} with "
            f"{', '.join(map(_named, penalties))}; Splitting takes any penalties"
        )
    return known


def _l21_and(other: type[Trace | Nuclear], penalties: Sequence[Any]) -> tuple[float, float] | None:
    """Return λ and η of one L21 and at most one of another kind; None for any other penalties."""
    rows = [penalty for penalty in penalties if type(penalty) is L21]
    others = [penalty for penalty in penalties if type(penalty) is other]
    if len(rows) > 1 or len(others) > 1 or len(rows) + len(others) != len(penalties):
        return None
    if other is Trace and not others:
        return None  # without the cone it is another problem
    eta = others[0].strength if others else 0.0
    return (rows[0].strength if rows else 0.0), eta


def _rounding(loss: SquaredLossOn, penalties: Sequence[Any]) -> Rounding:
    terms = loss.moments.n_samples * loss.n_features
    strength = sum(float(getattr(penalty, "strength", 0.0)) for penalty in penalties)
    return Rounding(terms, loss.empty, loss.empty / strength if strength > 0 else 1e3)


def _named(thing: Any) -> str:
    return type(thing).__name__.removesuffix("On")
