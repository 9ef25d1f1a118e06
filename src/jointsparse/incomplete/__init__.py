"""Mean and scatter matrix of samples with missing values: from pairs, or by maximum likelihood."""

from jointsparse.incomplete.estimate import HOW, Estimate, MissingValues, check_missing, estimated

__all__ = ["HOW", "Estimate", "MissingValues", "check_missing", "estimated"]
