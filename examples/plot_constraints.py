"""
Features with prices
====================

Thirty measurements of a tumour, some of them dear. Which five are the best for a given budget, and
what does the budget cost? A search finds the best allowed set and proves that no other is better.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from jointsparse import SPCAPSD, Constraints, SubsetSelector, constraint_prices

data = load_breast_cancer(as_frame=True).data
X = StandardScaler().set_output(transform="pandas").fit_transform(data)
prices = {name: 5.0 if name.startswith("worst") else 1.0 for name in X.columns}

# %%
# Every selector keeps to constraints. This one must keep a feature, too.
panel = Constraints(include=["mean texture"], costs=prices, budget=9)
model = SPCAPSD(n_features_to_select=5, constraints=panel).fit(X)
print(list(model.get_feature_names_out()))

# %%
# What each constraint costs: what the best set accounts for without it, less what the best set
# accounts for with it.
for price in constraint_prices(X, panel, 5):
    print(price)

# %%
# The best five features for every budget, and what no other five can exceed.
budgets = [5, 9, 13, 17, 21, 25]
found = [
    SubsetSelector(
        n_features_to_select=5,
        search="exact",
        max_nodes=300,
        constraints=Constraints(costs=prices, budget=budget),
    ).fit(X)
    for budget in budgets
]
figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
axes.step(budgets, [100 * one.set_bound_ for one in found], where="post", label="no set exceeds")
axes.step(budgets, [100 * one.set_value_ for one in found], where="post", label="best set known")
axes.set(xlabel="budget", ylabel="variance accounted for, %")
axes.legend(frameon=False)
plt.show()
