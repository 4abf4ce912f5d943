"""Prints where this Python has PyTorch, and which, without importing it: that would take seconds."""

import importlib.util
import json
import pathlib
import runpy
import sys

# `-c` puts the current folder first; a folder there that happens to be called torch is not a package.
sys.path = [folder for folder in sys.path if folder]
spec = importlib.util.find_spec("torch")
found = None
if spec is not None and spec.origin is not None:
    folder = pathlib.Path(spec.origin).parent.resolve()
    version = runpy.run_path(str(folder / "version.py"))["__version__"]
    found = {"folder": str(folder), "version": str(version)}
print(json.dumps(found))
