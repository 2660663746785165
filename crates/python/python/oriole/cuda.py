"""Makes programs that call nvcc assemble with Oriole: PyTorch's ``load_inline``, CuPy with ``backend="nvcc"``, and build systems.

>>> import oriole.cuda
>>> folder = oriole.cuda.install()

nvcc takes ``ptxas`` from its own folder and has no option for another one. So :func:`make_toolkit` makes a folder that looks like the installed
toolkit, with links to its files, a copy of ``nvcc`` and Oriole's ``ptxas``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Optional, Union

from ._programs import ptxas_path

_Path = Union[str, "os.PathLike[str]"]

#: nvcc finds the other programs relative to its own file and follows links, so it has to be a copy, like the file with its settings.
_COPIED = ("nvcc", "nvcc.profile")
_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "NVCC", "PATH")

#: Values of the variables before the first :func:`install`.
_before: dict[str, Optional[str]] = {}


def find_toolkit() -> str:
    """Returns the folder of an installed CUDA toolkit with nvcc: ``CUDA_HOME``, ``CUDA_PATH``, the one on ``PATH``, or ``/usr/local/cuda``.

    :raises FileNotFoundError: if there is none
    """
    nvcc = shutil.which("nvcc")
    candidates = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), nvcc and str(Path(nvcc).resolve().parent.parent), "/usr/local/cuda"]
    for folder in candidates:
        if folder and Path(folder, "bin", "nvcc").is_file():
            return folder
    raise FileNotFoundError("there is no CUDA toolkit with bin/nvcc; set CUDA_HOME")


def make_toolkit(folder: _Path, cuda_home: Optional[_Path] = None, *, ptxas: Optional[_Path] = None) -> str:
    """Makes a folder that looks like a CUDA toolkit with Oriole's ``ptxas``. Returns its path.

    :param folder: the folder to make; it may exist if it is empty
    :param cuda_home: the installed toolkit; without it, :func:`find_toolkit` finds it
    :param ptxas: Oriole's program; without it, :func:`oriole.ptxas_path` finds it
    :raises FileExistsError: if the folder has files
    """
    program = Path(ptxas) if ptxas is not None else Path(ptxas_path())
    original = Path(cuda_home) if cuda_home is not None else Path(find_toolkit())
    made = Path(folder).absolute()
    made.mkdir(parents=True, exist_ok=True)
    if any(made.iterdir()):
        raise FileExistsError(f"{made} is not empty")
    (made / "bin").mkdir()
    for part in original.iterdir():
        if part.name != "bin":
            (made / part.name).symlink_to(part.resolve())
    for file in (original / "bin").iterdir():
        if file.name in _COPIED:
            shutil.copy2(file, made / "bin" / file.name)
        elif file.name != "ptxas":
            (made / "bin" / file.name).symlink_to(file.resolve())
    (made / "bin" / "ptxas").symlink_to(program.resolve(strict=True))
    return str(made)


def install(folder: Optional[_Path] = None, cuda_home: Optional[_Path] = None) -> str:
    """Makes nvcc assemble with Oriole, in this process and in those that it starts. Returns the folder of the toolkit.

    Sets ``CUDA_HOME``, ``CUDA_PATH``, ``NVCC`` and ``PATH``, and the folder of a PyTorch that is already imported. Call it before CuPy compiles its first
    kernel, because CuPy remembers the path of nvcc. PyTorch and CuPy keep what they compiled: another ptxas is no reason for them to compile again.

    :param folder: where to make the toolkit; without it, a new folder in that of temporary files, which is not removed
    :param cuda_home: the installed toolkit; without it, :func:`find_toolkit` finds it
    """
    made = make_toolkit(folder if folder is not None else tempfile.mkdtemp(prefix="oriole-cuda-"), cuda_home)
    for variable in _VARIABLES:
        _before.setdefault(variable, os.environ.get(variable))
    os.environ["CUDA_HOME"] = os.environ["CUDA_PATH"] = made
    os.environ["NVCC"] = str(Path(made, "bin", "nvcc"))
    os.environ["PATH"] = os.pathsep.join([str(Path(made, "bin")), os.environ.get("PATH", "")])
    _set_torch(made)
    return made


def uninstall() -> None:
    """Restores what was set before :func:`install`."""
    for variable, value in _before.items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
    if _before:
        _set_torch(_before.get("CUDA_HOME") or _before.get("CUDA_PATH"))
    _before.clear()


def _set_torch(folder: Optional[str]) -> None:
    """Sets the folder of a PyTorch that is already imported. One that is imported later reads the variable."""
    extension = sys.modules.get("torch.utils.cpp_extension")
    if extension is not None and folder is not None:
        setattr(extension, "CUDA_HOME", folder)
