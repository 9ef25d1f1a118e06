"""SubsetSelector: the k features that explain most, with a proof of how good the set is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.methods.bases.choosing import Model
from jointsparse.methods.bases.selector import Selector, check_stopping
from jointsparse.methods.reading.needs import Needs, copies_of
from jointsparse.methods.reading.preparing import rows_for
from jointsparse.methods.sets.set_certificate import SetCertificate, relative_gap, search_limits
from jointsparse.methods.sets.set_finder import SetFinder
from jointsparse.methods.sets.subset_problem import (
    OUTCOMES,
    centred_outcomes,
    subset_problem,
    target_words,
)
from jointsparse.moments import Moments, check_variance
from jointsparse.selection.choosing import Choice, Wanted, by_score, tied_steps, wanted_features
from jointsparse.solvers.solution import Solution
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.subset.exchange import FoundSet, explained_curve, in_order
from jointsparse.solvers.subset.rules import Rules
from jointsparse.solvers.subset.search import SearchProgress, SubsetSearch
from jointsparse.solvers.subset.whole_groups import settled
from jointsparse.solvers.subset.whole_search import search_for
from jointsparse.trials import Picked

SEARCHES = ("greedy", "swap", "exact")
# Work of the first interlacing bounds up to which they are made without being asked for: 0.3 s.
FIRST_BOUNDS = 5e8


class SubsetSelector(Selector):
    r"""Select the set of k features that explains most, and prove how good it is.

    For centred X (n samples × p features) and a target Y of n rows, let :math:`P_H` be the
    projection on the columns of a set H of features,

    .. math:: \max_{|H| \le k}\ f(H) = \frac{\|P_HY\|_F^2}{\|Y\|_F^2} ,

    the share of the target that a linear regression on the features of H accounts for. By default Y
    is X: all features. The set is found by greedy picks, by exchanges of single features until none
    helps, or by a search that ends with a proof. Whatever found it, ``set_bound_`` is a proven
    upper bound: *no* allowed set of at most k features has a larger value, k being the number that
    was asked for, however many are kept. It is about this table, not about new data.

    Parameters
    ----------
    :shared: n_features_to_select
    search : {"greedy", "swap", "exact"}, default="swap"
        "greedy": picks one by one. "swap": then exchanges of one feature for another. "exact": then
        a search, until the best set is proved or a limit is reached.
    target : {"features", "patterns", "outcomes"} or array, default="features"
        What the set shall explain: all features; what of them lies above the noise (see
        :func:`feature_significance`); the outcomes y given to ``fit``, one column or
        several; or an array of q components (q × n_features), each a combination of the features.
    n_components : int or None, default=None
        With target="features": only the part of the features in their first principal components.
    :shared: constraints
    time_limit : float or None, default=10.0
        Seconds for the search; None is no limit. What a search finds within a time differs from run
        to run.
    max_nodes : int or None, default=None
        Nodes for the search; the same number gives the same result. None is no limit.
    tol : float, default=1e-9
        Share of the target to which a set is proved to be the best.
    :shared: missing
    :shared: scale
    :shared: robust

    Attributes
    ----------
    set_value_ : float
        Share of the target that the set explains.
    set_bound_ : float
        What no allowed set of at most k features can exceed, proven, rounding included.
    set_gap_ : float
        (bound - value) / value.
    proved_optimal_ : bool
        Whether no set is better by more than ``tol``.
    set_certificate_ : SetCertificate
        The same in one object; ``print`` says it in words.
    bound_method_ : str
        What the bound comes from.
    search_nodes_, search_seconds_ : int, float
        Work of the search so far.
    forced_in_, forced_out_ : ndarray of shape (n_features,)
        Features that every best set contains, or none, as far as that is proved.
    price_of_leaving_out_ : ndarray of shape (n_features, 2)
        Set by :meth:`price_of_leaving_out`: what the best set loses at least, and at most, without
        each kept feature.
    feature_scores_ : ndarray of shape (n_features,)
        Share of the target that each feature explains by itself.
    ranking_ : ndarray of shape (n_features,)
        The set first, in the order of greedy picks within it; behind it come the others by what
        each would add.
    support_ : ndarray of shape (n_features,)
        Which features are kept.
    :shared: attributes
    objective_ : float
        Share of the target left unexplained.
    history_ : ndarray of shape (n_iterations,)
        The same for the first of the set, the first two, …
    n_iter_ : int
        Size of the set.
    converged_ : bool
        Always true: a search that ends at a limit leaves a valid bound.
    stopping_reason_ : str
        Why the search ended.
    :shared: robust_attributes
    :shared: features_in

    See Also
    --------
    certify_set : The same proof for any set.
    GreedySelector : Faster; every prefix of its ranking is a set of its own.

    Notes
    -----
    A feature of which the others of a set leave less than 1e-9 adds nothing to its value. It may
    add something to the bound, unless they determine it to the last digits of the samples. With k
    at most 5 and some 60 features, or 20 of 30, the best set is proved in seconds; beyond, the
    bound stays open by a few percent. With more features than samples a large k explains everything
    in this table, and says nothing: give ``n_components``.

    References
    ----------
    Boutsidis, Mahoney, Drineas (2009). An improved approximation algorithm for the column subset
    selection problem. SODA: the problem.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SubsetSelector
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> selector = SubsetSelector(n_features_to_select=5, search="exact").fit(X)
    >>> round(selector.set_value_, 4), selector.proved_optimal_
    (0.7822, True)
    >>> selector.stopping_reason_
    'no set of as many features is better (proved for this table)'
    """

    _on_host = "the search"

    def __init__(
        self,
        *,
        n_features_to_select: int | float | str = "auto",
        search: str = "swap",
        target: Any = "features",
        n_components: int | None = None,
        constraints: Constraints | None = None,
        time_limit: float | None = 10.0,
        max_nodes: int | None = None,
        tol: float = 1e-9,
        missing: str = "error",
        scale: str | None = None,
        robust: str | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.search = search
        self.target = target
        self.n_components = n_components
        self.constraints = constraints
        self.time_limit = time_limit
        self.max_nodes = max_nodes
        self.tol = tol
        self.missing = missing
        self.scale = scale
        self.robust = robust

    def _outcomes(self) -> bool:
        return isinstance(self.target, str) and self.target == "outcomes"

    def _needs(self) -> Needs:
        # Centred and unit columns, their images and rounds of copies of them.
        return Needs(
            samples=self._outcomes(),
            dense_bytes=lambda n, p: (6 if p <= n else 11) * 8 * p * min(n, p),
            fit_bytes=copies_of(8, 11),
        )

    def moments_of(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, batch: Any = None
    ) -> Moments:
        """Return the moments of samples, and with them the outcomes, checked as ``fit`` does.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or source of shape (n_samples, n_features)
            Samples, one per row. Not modified.
        y : array-like of shape (n_samples,) or (n_samples, n_outcomes) or None
            Outcomes, where they are the target; ignored otherwise.
        sample_weight, batch : array-like of shape (n_samples,) or None, default=None
            As in ``fit``.

        Returns
        -------
        Moments
        """
        moments = super().moments_of(X, y, sample_weight=sample_weight, batch=batch)
        if self._outcomes():
            y = rows_for(y, sample_weight)
            moments.near_one.workspace.keep(OUTCOMES, centred_outcomes(y, moments.n_samples))
        return moments

    def _solve(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        check_stopping(self.tol, 1)
        if self.search not in SEARCHES:
            raise ValueError(f"search={self.search!r} is not one of 'greedy', 'swap', 'exact'")
        seconds, nodes = search_limits(self.time_limit, self.max_nodes)
        self.__dict__.pop("price_of_leaving_out_", None)
        self.__dict__.pop("_size", None)
        wanted = wanted_features(self.n_features_to_select, moments.n_features)
        if wanted.auto:
            outcomes = moments.near_one.workspace.found(OUTCOMES)
            _, wanted = self._how_many(wanted, moments, outcomes)
        self.__dict__.pop("_state", None)
        if wanted.count == 0:
            return self._nothing(moments)
        with threadpool_limits(1, user_api="blas"):  # small matrices: more threads are slower
            finder = self._finder(moments)
            whole = self._outcomes() or not isinstance(self.target, str) or self.n_components
            found = finder.find(wanted, shrink=not whole)
            # Constraints may let a set be smaller than what was asked for: others need not be.
            most = finder.most(wanted, found)
            state = search_for(finder.problem, most, finder.rules, start=found, tol=self.tol)
            if self.search == "exact":
                state.run(time_limit=seconds, max_nodes=nodes)
            elif finder.problem.n_features * (state.size + 12) ** 3 <= FIRST_BOUNDS:
                state.run(max_nodes=1)
        self._state, self._variances, self._most = state, moments.variances, most
        return self._adopt(found if self.search == "greedy" else state.best), finder.scores

    def _nothing(self, moments: Moments) -> tuple[Solution, NDArray[np.float64]]:
        """Note that no feature is kept: there is nothing to search for."""
        p, self._most = moments.n_features, 0
        scores = np.clip(self._finder(moments).scores, 0.0, None)
        self.set_value_ = self.set_bound_ = self.set_gap_ = 0.0
        self.proved_optimal_, self.bound_method_ = True, "nothing is kept"
        self.search_nodes_, self.search_seconds_ = 0, 0.0
        self.forced_in_, self.forced_out_ = np.zeros(p, dtype=bool), np.zeros(p, dtype=bool)
        order = by_score(scores, moments.variances)
        choice = Choice(order, 0, available=int(np.count_nonzero(scores)))
        solution = Solution(
            np.empty((p, 0)), 1.0, None, [], [], 0, True, "nothing is kept", state=choice
        )
        return solution, scores

    def _finder(self, moments: Moments, rules: Rules | None = None) -> SetFinder:
        rules = self._rules(moments) if rules is None else rules
        problem = settled(subset_problem(moments, self.target, self.n_components), rules)
        return SetFinder(problem, rules, moments.variances, greedy=self.search == "greedy")

    def _pick_on(self, moments: Moments, rows: IntArray | None, *, y: Any) -> Picked:
        """Find a set on some of the samples: of the size that is judged, or of any size.

        While the size is still open the greedy order stands for the sets of all sizes.
        """
        trial = clone(self)
        check_variance(moments)
        trial._note_noise(moments)
        if self._outcomes():
            if y is None or rows is None:
                raise ValueError("the outcomes of the samples are not at hand")
            moments.near_one.workspace.keep(OUTCOMES, centred_outcomes(y[rows], moments.n_samples))
        size = self.__dict__.get("_size")
        most = min(moments.n_samples - 2, int(np.count_nonzero(moments.variances)))
        most = min(most, self.__dict__.get("_most_picks", most))
        if size is None:
            trial.set_params(search="greedy")
        with threadpool_limits(1, user_api="blas"):
            rules = self._rules(moments)  # of all samples: a trial knows no names
            wanted = Wanted(count=max(min(size or most, most), len(rules.include)))
            found = trial._finder(moments, rules).find(wanted, shrink=False)
        return Picked(found.features, trial.significant_)

    def _as_model(self, solution: Solution, scores: FloatArray, moments: Moments) -> Model:
        self._found: Choice = solution.state
        return Model(scores)

    def _make_set(self, model: Model, moments: Moments, y: Any = None) -> Choice:
        wanted = self._check_wanted(moments.n_features)
        choice = self._found
        del self._found
        self.feature_scores_ = model.scores
        self._take(choice)
        self._remember(moments, None, moments.near_one.workspace.found(OUTCOMES))
        message = self._remark(choice, wanted, moments)
        if message:
            self._warn(message)
        return choice

    def _take(self, choice: Choice) -> None:
        self.ranking_, self.support_ = choice.ranking, choice.support
        self.selection_curve_ = np.zeros(0) if choice.curve is None else choice.curve

    def _adopt(self, found: FoundSet) -> Solution:
        """Note a set and what is proved about it."""
        search: SubsetSearch = self._state
        problem, variances = search.problem, self._variances
        order, values, next_ones = in_order(problem, found.features)
        rest = by_score(np.where(problem.gains > problem.rounding, problem.gains, 0.0), variances)
        rest = rest[~np.isin(rest, order)]
        # Where any one feature would complete the set they all add the same, but for rounding.
        turns = tied_steps(-next_ones[rest])
        ranked = np.concatenate([order, rest[np.argsort(turns, kind="stable")]])
        curve = explained_curve(problem, order, variances)
        choice = Choice(ranked, order.size, curve, None, int(problem.live.sum()))
        self._size = order.size
        self.set_value_, self.set_bound_ = found.value, max(search.bound, found.value)
        self.set_gap_ = relative_gap(self.set_value_, self.set_bound_)
        self.proved_optimal_ = bool(self.set_bound_ <= self.set_value_ + self.tol)
        self.bound_method_ = search.bound_method
        self.search_nodes_, self.search_seconds_ = search.nodes, search.seconds
        inside, outside = search.feature_bounds()
        self.forced_in_ = outside < search.best.value - self.tol
        self.forced_out_ = inside < search.best.value - self.tol
        left = 1 - values
        return Solution(
            loadings=np.empty((problem.n_features, 0)),
            objective=1 - found.value,
            gap=None,
            history=left.tolist(),
            gap_history=[],
            n_iter=left.size,
            converged=True,
            reason=self._why(),
            state=choice,
        )

    def _why(self) -> str:
        """Say why the search ended."""
        if self.proved_optimal_:
            some = "of as many features"
            if self.constraints is not None:
                some = f"of at most {self._most} features that keeps to the constraints"
            return f"no set {some} is better (proved for this table)"
        looked = self.search == "exact" or self.search_nodes_ > 1
        if looked and self._state.finished and not self._state.proved:
            return "the search is complete; features that nearly determine others leave it open"
        if self.search_nodes_ > 1:
            return f"the search ended at its limit, after {self.search_nodes_} nodes"
        picked = "every feature was the best one at its turn"
        return picked if self.search == "greedy" else "no exchange of one feature is better"

    @property
    def set_certificate_(self) -> SetCertificate:
        """What is proved about the set; ``print`` says it in words."""
        check_is_fitted(self)
        kept = np.flatnonzero(self.support_)
        return SetCertificate(
            features=kept,
            value=self.set_value_,
            bound=self.set_bound_,
            gap=self.set_gap_,
            proved=self.proved_optimal_,
            best_features=kept,
            best_value=self.set_value_,
            n_features=self.support_.size,
            method=self.bound_method_,
            nodes=self.search_nodes_,
            seconds=self.search_seconds_,
            tol=self.tol,
            target=target_words(
                self.target, self.n_components, getattr(self, "missing_values_", None)
            ),
            constrained=self.constraints is not None,
            k=getattr(self, "_most", kept.size),  # models of earlier versions do not know it
        )

    def improve(
        self,
        *,
        time_limit: float | None = 10.0,
        max_nodes: int | None = None,
        callback: Callable[[SearchProgress], object] | None = None,
    ) -> Self:
        """Go on searching where the last search ended; the set gets better, the bound smaller.

        Parameters
        ----------
        time_limit : float or None, default=10.0
            Seconds; None is no limit.
        max_nodes : int or None, default=None
            Nodes of the search; None is no limit.
        callback : callable or None, default=None
            Called some ten times a second with the value, the bound, the nodes and the seconds so
            far; the search stops where it returns True.

        Returns
        -------
        self
        """
        search = self._kept_search()
        seconds, nodes = search_limits(time_limit, max_nodes)
        with threadpool_limits(1, user_api="blas"):
            search.run(time_limit=seconds, max_nodes=nodes, callback=callback)
            solution = self._adopt(search.best)
        kept = self.support_
        self._record(solution)
        self._take(solution.state)
        if not np.array_equal(kept, self.support_):
            self.__dict__.pop("selection_report_", None)
            self.__dict__.pop("price_of_leaving_out_", None)
        return self

    def price_of_leaving_out(
        self, *, time_limit: float | None = 10.0, max_nodes: int | None = None
    ) -> FloatArray:
        """Return what the best set loses without each of the kept features.

        Parameters
        ----------
        time_limit : float or None, default=10.0
            Seconds for all of them together; None is no limit.
        max_nodes : int or None, default=None
            Nodes of the search for each; None is no limit.

        Returns
        -------
        ndarray of shape (n_features, 2)
            For each kept feature the loss, as a share of the target, is proved to lie between these
            two; not a number for the others and for those that must be in. Kept as
            ``price_of_leaving_out_``.
        """
        search = self._kept_search()
        rules = search.rules
        free = [j for j in np.flatnonzero(self.support_).tolist() if j not in rules.include]
        seconds, nodes = search_limits(time_limit, max_nodes)
        prices = np.full((search.problem.n_features, 2), np.nan)
        with threadpool_limits(1, user_api="blas"):
            for feature in free:
                allowed = rules.allowed.copy()
                allowed[feature] = False
                without = search_for(
                    search.problem, search.size, replace(rules, allowed=allowed), tol=self.tol
                )
                without.run(time_limit=seconds / len(free), max_nodes=nodes)
                least = search.best.value - without.bound
                prices[feature] = max(0.0, least), max(0.0, search.bound - without.best.value)
        self.price_of_leaving_out_ = prices
        return prices

    def _kept_search(self) -> SubsetSearch:
        check_is_fitted(self)
        search: SubsetSearch | None = self.__dict__.get("_state")
        if search is None:
            raise ValueError(
                "the search is not part of a saved or copied model: fit again to go on with it"
            )
        return search

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        for name in ("_variances", "_size"):
            state.pop(name, None)
        return state
