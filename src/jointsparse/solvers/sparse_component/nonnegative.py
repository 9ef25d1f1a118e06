r"""An upper bound for v ≥ 0 on one support, face by face.

.. math:: \max_v\ v^\top S v\quad\text{with } \|v\|_2 = 1,\ v\ge 0

If the largest value is attained where all entries are positive, v is a local maximum on the sphere,
hence a first eigenvector of S. So where the first eigenvalue is simple and its eigenvector has
entries of both signs, the maximum is on a face: one feature fewer. That is repeated on the faces
whose first eigenvalue is above what is attained. With the distance δ to the second eigenvalue, the
computed eigenvector is off by less than a multiple of p·eps/δ, and only signs beyond that count.
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.linalg import eigh
from jointsparse.solvers.sparse_component.certificate import upper_eigenvalue

MOST_FACES = 5000  # looked at; those that are left count with their first eigenvalue
SIMPLE = 1e-7  # relative distance of the first two eigenvalues, and ...
SIGNED = 1e-6  # ... entries beyond this then have the sign that they seem to have


def bound_on_faces(S: FloatArray, level: float) -> float:
    """Return a bound on vᵀSv over unit v ≥ 0; not below ``level``."""
    open_faces = [tuple(range(len(S)))]
    seen = set(open_faces)
    bound = level
    looked = 0
    while open_faces:
        face = open_faces.pop()
        index = np.array(face)
        block = S[index[:, None], index]
        largest = upper_eigenvalue(block)
        if largest <= bound:
            continue
        looked += 1
        if looked > MOST_FACES or not _has_both_signs(block):
            bound = largest
            continue
        for i in range(len(face)):
            smaller = face[:i] + face[i + 1 :]
            if smaller not in seen:
                seen.add(smaller)
                open_faces.append(smaller)
    return bound


def _has_both_signs(block: FloatArray) -> bool:
    """Whether the first eigenvector, the only one, is proved to have entries of both signs."""
    if len(block) == 1:
        return False
    values, vectors = eigh(block)
    if values[-1] - values[-2] <= SIMPLE * float(np.max(np.abs(values))):
        return False
    v = vectors[:, -1]
    return bool(v.max() > SIGNED and v.min() < -SIGNED)
