"""One competitor in a process of its own: ``python worker.py FILE CLASS``.

It needs NumPy and nothing else, so that it runs in the virtual environment of any competitor. Each
line on its input is a command in JSON, each line of its answer too; what a competitor prints goes
to the error stream, so that it cannot be taken for an answer.

A competitor is a class with three methods, as in benchopt: ``set_objective(data, params)`` imports
and prepares (not timed), ``run()`` does the work (timed), ``get_result()`` returns arrays. Where it
has ``prepare()``, that is called before every run (not timed).
"""

import importlib.util
import json
import os
import resource
import sys
import time
import warnings

import numpy as np


def main(file, name):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    solver = find(file, name)()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = ACTIONS[command.pop("do")](solver, **command)
        except Exception as error:  # whatever a rival raises is its result
            words = " ".join(str(error).split())
            answer = {"error": f"{type(error).__name__}: {words}"[:200]}
        answers.write(json.dumps(answer) + "\n")


def find(file, name):
    spec = importlib.util.spec_from_file_location("competitor", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def load(solver, data, params):
    with np.load(data, allow_pickle=False) as arrays:
        solver.set_objective({key: arrays[key] for key in arrays.files}, params)
    return {}


def run(solver):
    """Seconds of the processor and of the clock; memory added at the peak, in MB."""
    if hasattr(solver, "prepare"):
        solver.prepare()
    with one_thread():  # which takes milliseconds itself: not timed
        before = start_of_peak()
        clock, processor = time.perf_counter(), processor_time()
        solver.run()
        processor, clock = processor_time() - processor, time.perf_counter() - clock
    return {"seconds": processor, "clock": clock, "memory": max(0.0, peak() - before) / 1024}


def processor_time():
    """Seconds of this process and of those that it started and saw end."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def result(solver, to):
    np.savez(to, **{key: np.asarray(value) for key, value in solver.get_result().items()})
    return {}


def one_thread():
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # the environment variables have pinned them already
        from contextlib import nullcontext

        return nullcontext()
    return threadpool_limits(1)


def start_of_peak():
    """Forget the peak so far, where the system can; return the memory in use, in kB."""
    try:
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123 - as short as can be
            file.write("5")
        return status("VmRSS")
    except OSError:
        return peak()


def peak():
    """Return the most memory that this process has used, in kB.

    What getrusage says begins with the memory of the process that started this one.
    """
    try:
        return status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def status(name):
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(float(line.split()[1]) for line in file if line.startswith(name))


ACTIONS = {"load": load, "run": run, "result": result}

if __name__ == "__main__":
    main(*sys.argv[1:])
