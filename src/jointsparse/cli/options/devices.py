"""``--device``: where the fit runs. PyTorch is imported here and nowhere else."""

from typing import Any

from jointsparse.cli.errors import CommandError
from jointsparse.cli.options.arguments import quoted


def find_device(name: str | None) -> Any:
    """Return PyTorch's device of that name, or say in a sentence why there is none.

    Parameters
    ----------
    name : str or None
        ``cpu``, ``cuda``, ``cuda:1``, …; None where the option was not given.
    """
    if name is None:
        return None
    try:
        import torch
    except ImportError as error:
        raise CommandError(
            "--device needs PyTorch, which is not installed: pip install 'jointsparse[torch]'"
        ) from error
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise CommandError(
            f"--device: {quoted(name)} is not a device; it is cpu, cuda or, for one of several "
            "GPUs, cuda:0, cuda:1, …"
        ) from error
    if device.type == "mps":
        raise CommandError(
            "--device mps: Apple's GPUs have no float64, in which spectra and certificates are "
            "computed; leave --device out"
        )
    if device.type not in ("cpu", "cuda"):
        raise CommandError(f"--device: {name} is not supported; it is cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if device.type == "cuda" and not (torch.cuda.is_available() and (device.index or 0) < count):
        there = f"PyTorch sees {count} GPUs" if count else "PyTorch sees no GPU"
        raise CommandError(f"--device {name}: there is no such device, {there}")
    return device


def move(values: Any, device: Any) -> Any:
    """Return a table as a tensor on a device; as it is where no device was asked for."""
    if device is None:
        return values
    import numpy as np
    import torch
    from scipy.sparse import issparse

    if issparse(values):
        raise CommandError("--device needs a dense table, and this one is sparse; leave it out")
    if not isinstance(values, np.ndarray):
        raise CommandError(
            "--device needs the whole table in memory, and this one is read in blocks: raise "
            "--memory, or leave --device out"
        )

    return torch.as_tensor(values, device=device)
