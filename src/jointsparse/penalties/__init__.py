r"""Penalties: what a solver of this library may ask of one.

A penalty P of a matrix with one column for each feature has

* ``value(matrix)``, the penalty itself;
* ``prox(matrix, step)``, :math:`\arg\min_Z \tfrac12\|Z-M\|_F^2 + \text{step}\cdot P(Z)`;
* ``polar(matrix)``, :math:`\sup\{\langle M,\Omega\rangle : P(\Omega)\le 1\}` (for a norm times λ:
  the dual norm over λ), from which bounds are proved; or, where P(2Ω) is not 2P(Ω),
  ``conjugate(matrix)``, :math:`\sup_\Omega\langle M,\Omega\rangle - P(\Omega)`;
* ``weights(norms, smoothing)``, where it is a function of the column norms that can be replaced by
  weighted squares;
* ``symmetric = True`` where it is finite for symmetric matrices only.

None is a base class: an object of your own with these methods will do, and needs only those that
the solver in use names in its ``requires``.
"""

from jointsparse.penalties.entries import L1, ElasticNet, soft_threshold
from jointsparse.penalties.rows import L21, L2p
from jointsparse.penalties.trace import Nuclear, Trace

__all__ = ["L1", "L21", "ElasticNet", "L2p", "Nuclear", "Trace", "soft_threshold"]
