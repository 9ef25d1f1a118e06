"""Published tables and figures as experiments that can be run again, interrupted and resumed."""

from jointsparse.experiments.catalogue import experiments
from jointsparse.experiments.claims import Claim, Outcome
from jointsparse.experiments.run import run
from jointsparse.experiments.store import Store
from jointsparse.experiments.task import Experiment, Task

__all__ = ["Claim", "Experiment", "Outcome", "Store", "Task", "experiments", "run"]
