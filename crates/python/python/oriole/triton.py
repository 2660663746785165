"""Makes Triton compile with Oriole.

>>> import oriole.triton
>>> path = oriole.triton.install()

Call it before the first kernel is compiled; before or after ``import triton`` makes no difference.
"""

from __future__ import annotations

import os
import sys
from typing import Optional, Union

from ._programs import ptxas_path

_VARIABLE = "TRITON_PTXAS_PATH"
#: Triton 3.5 and later use another variable for sm_100 and later.
_BLACKWELL_VARIABLE = "TRITON_PTXAS_BLACKWELL_PATH"
_KNOBS = {_VARIABLE: "ptxas", _BLACKWELL_VARIABLE: "ptxas_blackwell"}

#: Values of the variables before the first :func:`install`.
_before: dict[str, Optional[str]] = {}


def install(path: Union[str, "os.PathLike[str]", None] = None, *, blackwell: bool = False) -> str:
    """Makes Triton call Oriole's ``ptxas``, in this process and in those that it starts. Returns the path of the program.

    :param path: the program; without it, :func:`oriole.ptxas_path` finds it
    :param blackwell: also for sm_100 and later, where Oriole's code has been compared with that of ptxas but never run.
    :raises FileNotFoundError: if there is no such program
    """
    program = os.path.abspath(os.fspath(path)) if path is not None else ptxas_path()
    if not (os.path.isfile(program) and os.access(program, os.X_OK)):
        raise FileNotFoundError(f"{program} is not a program")
    for variable in (_VARIABLE, _BLACKWELL_VARIABLE) if blackwell else (_VARIABLE,):
        _before.setdefault(variable, os.environ.get(variable))
        os.environ[variable] = program
        _set_knob(variable, program)
    _forget_version()
    return program


def uninstall() -> None:
    """Restores what was set before :func:`install`."""
    for variable, value in _before.items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
        _set_knob(variable, value)
    _before.clear()
    _forget_version()


def _set_knob(variable: str, value: Optional[str]) -> None:
    """Sets the knob of a Triton that is already imported. One that is imported later reads the variable."""
    nvidia = getattr(sys.modules.get("triton.knobs"), "nvidia", None)
    name = _KNOBS[variable]
    if nvidia is None or not hasattr(type(nvidia), name):
        return
    if value is None:
        delattr(nvidia, name)
    else:
        setattr(nvidia, name, value)


def _forget_version() -> None:
    """Makes Triton ask for the version again. It is part of the key of Triton's cache of compiled kernels."""
    compiler = sys.modules.get("triton.backends.nvidia.compiler")
    forget = getattr(getattr(compiler, "get_ptxas_version", None), "cache_clear", None)
    if forget is not None:
        forget()
