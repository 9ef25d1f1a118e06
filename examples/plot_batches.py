"""
Batches: what varies within them
================================

Measured in two runs, some columns differ between the runs and in nothing else. With ``batch`` these
are not kept.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from jointsparse import SPCAPSD
from jointsparse.datasets import make_expression

made = make_expression()
plain = SPCAPSD(n_features_to_select=12, scale="standard").fit(made.data)
within = SPCAPSD(n_features_to_select=12, scale="standard").fit(made.data, batch=made.batch)
print(plain.n_significant_, "patterns in all,", within.n_significant_, "within the runs")
print(within.batches_)

# %%
# Twelve kept genes, and the group that each belongs to; 0 is none.
figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
second = made.batch == "run2"
shift = made.data[second].mean(0) - made.data[~second].mean(0)
for ax, (name, selector) in zip(axes, (("all", plain), ("within runs", within)), strict=True):
    kept = selector.get_support(indices=True)
    ax.bar(range(12), np.abs(shift[kept]), color="#d55e00")
    ax.set(title=name, xlabel="kept gene, by its group")
    ax.set_xticks(range(12), made.pathway[kept])
axes[0].set_ylabel("difference between runs")
