"""What many docstrings say alike, written once and inserted where a line says ``:shared: name``."""

from __future__ import annotations

import re

_MARK = re.compile(r"^( *):shared: (\w+)$", re.MULTILINE)

SHARED = {
    "n_features_to_select": """\
n_features_to_select : int, float or str, default="auto"
    How many features to keep. "auto": as many as new samples call for, and none where there is no
    structure beyond noise. The selection is repeated in parts of the samples; the fewest features
    are kept that carry 90 % of what can be predicted of the others in the part left out, or that
    are within a standard error of the best. Other values: a number; a share of all features;
    "r2>=0.8", the fewest that account for 80 % of the variance *of this table*, in the order of
    ``rule``; "support", all with a nonzero score.""",
    "rule_of_model": """\
rule : {"greedy", "residual", "norm", "variance", "swap"}, default="greedy"
    How the set is made from the model. "greedy": one by one, the feature that accounts for most of
    what the model reconstructs beyond those already kept; of nearly equal ones, the one that stands
    for more of the others. "residual": the largest score × share of the feature's variance that
    those kept leave. Both pick features that share something with others first. "norm": the
    largest scores, as published; neighbours that repeat each other are all kept.
    "variance": the largest variances, whatever the model says: the set that makes up most of the
    total variance by itself (``own_share`` of the report), of columns that are not standardised;
    the verdict still tells what it predicts of the others.
    "swap": as "greedy"; then one of the kept is exchanged for another feature as long as the set
    accounts for more of the same in this table.""",
    "rule_of_scores": """\
rule : {"greedy", "residual", "norm", "variance", "swap"}, default="greedy"
    How scores become a set. "greedy": one by one, the feature with the largest product of its
    score and what it adds to those before it, of what lies above the noise. "residual": score ×
    share of the feature's variance that those before it leave. Both pick features that share
    something with others first. "norm": the highest scores, as published.
    "variance": the largest variances, whatever the model says: the set that makes up most of the
    total variance by itself (``own_share`` of the report), of columns that are not standardised;
    the verdict still tells what it predicts of the others.
    "swap": as "greedy"; then one of the kept is exchanged for another feature as long as the set
    accounts for more of the same in this table; the scores decide where that begins.""",
    "robust": """\
robust : {None, "samples", "cells"}, default=None
    What may be wrong with the table: nothing; whole samples ("samples", up to a fifth of them far
    from the others, see :class:`SpatialSign`); or single values ("cells", up to a quarter of a
    column, see :class:`Wrap`). Everything, noise and worth included, is then computed from samples
    in which outliers have a bounded say, or none. Columns become comparable on the way, as by
    standardising.""",
    "robust_components": """\
robust : {None, "samples", "cells"}, default=None
    What may be wrong with the table: nothing; whole samples ("samples", up to a fifth of them far
    from the others, see :class:`SpatialSign`); or single values ("cells", up to a quarter of a
    column, see :class:`Wrap`). The components are then those of samples in which outliers have a
    bounded say, or none; columns keep their units.""",
    "robust_attributes": """\
outlier_scores_ : ndarray of shape (n_samples,)
    With ``robust``: how far each sample of ``fit`` is from the centre, in robust units.
outliers_ : ndarray of bool of shape (n_samples,)
    With ``robust``: which samples are above 2.8, as 1 in 400 Gaussian ones would be.
robust_step_ : SpatialSign or Wrap
    With ``robust``: what was done to the samples; of "cells" it tells which values are gross.""",
    "constraints": """\
constraints : Constraints or None, default=None
    Which sets are allowed: features that must or must not be in, prices and a budget, at most so
    many of a group, groups chosen as a whole (:class:`Constraints`). An excluded feature is still
    to be explained. What must be in is kept whatever the count or "auto" says, and comes first in
    ``ranking_``; what no longer fits is passed over. With prices, features are picked by gain and
    again by gain for the price, and the better set is kept. "auto" repeats the selection under
    the same constraints; "support" keeps what may be in, best first as long as it fits.""",
    "search": """\
search : {"exact", "approximate"}, default="exact"
    How neighbours are found. "approximate": most of them, by nearest-neighbour descent, of more
    than 10 000 samples that are dense and not on a device (others are searched exactly).
    Needs ``pip install 'jointsparse[neighbours]'``.""",
    "missing": """\
missing : {"error", "mean", "pairwise", "em"}, default="error"
    What to do about missing values (NaN). "error": refuse them. "mean": the mean of the column
    stands for them. "pairwise": each correlation is from the samples that have both values, and
    negative eigenvalues are repaired. "em": the scatter matrix of greatest likelihood for Gaussian
    samples. These two are for methods that look at nothing but the scatter matrix: what is proved
    holds for the *estimated* one, ``missing_values_`` tells what was done, and a set is judged
    between two halves of the samples, each with its own estimate. A selector's ``transform`` leaves
    missing values missing; for component scores the mean stands for them.""",
    "scale": """\
scale : {None, "standard", "robust"}, default=None
    How columns of different units are made comparable while features are chosen: None leaves them,
    "standard" divides each by its standard deviation, "robust" by the distance of its quartiles.
    ``transform`` gives the columns as they came.""",
    "features_in": """\
n_features_in_ : int
    Number of features seen during fit.
feature_names_in_ : ndarray of shape (n_features,)
    Names of the features, where X had any.""",
    "stopping": """\
converged_ : bool
    Whether the tolerance was reached.
stopping_reason_ : str
    Why the solver stopped.""",
    "order": """\
ranking_ : ndarray of shape (n_features,)
    1 for the best feature.
support_ : ndarray of shape (n_features,)
    Which features are kept.""",
    "order_of_rule": """\
ranking_ : ndarray of shape (n_features,)
    1 for the best feature, in the order of ``rule``; behind the kept ones come the others by
    what each would add next.
support_ : ndarray of shape (n_features,)
    Which features are kept.""",
    "n_clusters": """\
n_clusters : int or None, default=None
    Number c of groups that the samples fall into, where it is known. It changes what "auto"
    means for the penalties, which then leave about c - 1 components, and the greedy rule, for
    which every direction of the model then counts alike.""",
    "optimality": r"""diagnostics_ : dict
    Number of nonzero rows. "optimality": length of the gradient of the smoothed objective
    (:math:`\|w_j\|^2+10^{-10}` in place of :math:`\|w_j\|^2`) along the matrices with
    orthonormal columns, at W, divided by the length of the gradient of its penalty.
    "optimality_bound": what it is not above where ``converged_``, ``tol``.""",
    "attributes": """\
n_significant_ : int
    Independent patterns in the table: directions that noise alone would not have.
noise_edge_ : float
    The largest eigenvalue of the correlation matrix that noise alone would have.
feature_shares_ : ndarray of shape (n_features,)
    Share of each feature that the others account for, see :func:`feature_significance`.
feature_pvalues_ : ndarray of shape (n_features,)
    How probable so large a share is for a feature that has nothing to do with the others.
significant_ : ndarray of bool of shape (n_features,)
    Features that share something with others, at a false-discovery rate of 5 %. With "support",
    which does not ask for it, this and the four before are computed when first asked for.
selection_curve_ : ndarray of shape (n_kept,)
    Share of the variance of all features, in this table, that the best kept feature, the best
    two, … account for. Not with "support", nor where nothing is kept.
missing_values_ : MissingValues
    What was missing and what was done about it. Only where values were missing.
batches_ : Batches
    What lay between batches and was taken out. Only where ``fit`` was given batches.
n_samples_seen_ : int
    Samples of all calls of ``partial_fit``. Only after these.
selection_report_ : SelectionReport
    What the set is worth in new samples, with a verdict in words, and the stand-ins of the dropped
    features. Computed when first asked for.""",
}


def with_shared(text: str) -> str:
    """Return a docstring with the shared parts in their places.

    Examples
    --------
    >>> from jointsparse.methods.bases.shared_docs import with_shared
    >>> with_shared("    :shared: attributes").splitlines()[0]
    '    n_significant_ : int'
    """

    def insert(mark: re.Match[str]) -> str:
        return "\n".join(mark[1] + line if line else line for line in SHARED[mark[2]].split("\n"))

    return _MARK.sub(insert, text)
