"""Tables whose rows are no samples."""

import numpy as np
import pandas as pd
import pytest
from test_cli import invoke

TOLD = "the table is symmetric, as a matrix of"
rng = np.random.default_rng(0)
SAMPLES = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6)) + rng.standard_normal((30, 6))
CORRELATIONS = np.corrcoef(SAMPLES, rowvar=False).round(3)
DISTANCES = np.linalg.norm(SAMPLES[:8, None] - SAMPLES[None, :8], axis=2)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (CORRELATIONS, "correlations"),
        (np.cov(SAMPLES, rowvar=False), "covariances or distances"),
        (DISTANCES, "covariances or distances"),
        (SAMPLES[:6], None),
        (CORRELATIONS + 0.01 * np.eye(6, k=1), None),
        (np.tril(CORRELATIONS), None),
        (np.array([[1.0, 0.5], [0.5, 1.0]]), None),
    ],
)
def test_a_matrix_in_the_place_of_a_table_is_told(tmp_path, values, kind):
    names = [f"x{j}" for j in range(values.shape[1])]
    pd.DataFrame(values, names, names).to_csv(tmp_path / "a.csv")
    said = " ".join(invoke("select", str(tmp_path / "a.csv"), "--features", "1").output.split())
    assert (TOLD in said) == (kind is not None)
    if kind is not None:
        assert f"{TOLD} {kind} is; if it is one, its rows are no samples" in said
        assert "Moments.from_scatter" in said
