"""Finds the programs ``oriole`` and ``ptxas``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_SUFFIX = ".exe" if sys.platform == "win32" else ""


def _is_ours(path: str) -> bool:
    """Returns whether a program is Oriole's: NVIDIA has a ``ptxas`` too."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return "oriole" in answer.stdout.lower()


def _is_entry_point(path: str) -> bool:
    """Returns whether a program is a script of a Python package. The one of this package would call :func:`_find` without end."""
    if sys.platform == "win32":
        return Path(path).resolve().parent in (Path(sys.executable).parent, Path(sys.prefix) / "Scripts")
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


def _find(name: str) -> str:
    packaged = Path(__file__).resolve().parent / "bin" / (name + _SUFFIX)
    if packaged.is_file() and os.access(packaged, os.X_OK):
        return str(packaged)
    found = shutil.which(name)
    if found is not None and not _is_entry_point(found) and _is_ours(found):
        return os.path.abspath(found)
    raise FileNotFoundError(
        f"this installation has no program {name}, and PATH has none of Oriole; "
        "tools/python-wheel.sh of the Oriole project builds wheels with the programs"
    )


def ptxas_path() -> str:
    """Returns the path of Oriole's ``ptxas``: the one in the package, or else the one on ``PATH`` if it is Oriole's.

    :raises FileNotFoundError: if there is none
    """
    return _find("ptxas")


def oriole_path() -> str:
    """Returns the path of the command line tool ``oriole``, found in the same way as :func:`ptxas_path`."""
    return _find("oriole")
