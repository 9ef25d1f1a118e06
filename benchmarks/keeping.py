"""One JSON file to which several processes may add what they found."""

import fcntl
import json
import os


def known(path):
    """Return what a file has so far."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def add(path, key, found, *, to=lambda before, found: found):
    """Store what was found under a key; ``to`` may join it with what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        stored = known(path)
        stored[key] = to(stored.get(key, {}), found)
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(path)  # a reader never sees half of it
    finally:
        os.close(folder)  # and the lock with it
