"""Oriole, an open PTX assembler for NVIDIA GPUs.

>>> import oriole
>>> cubin = oriole.compile(ptx, arch="sm_90a")
>>> cubin.kernels["saxpy"].registers
8

Functions release the interpreter lock while they work, so threads compile in parallel. No GPU, CUDA toolkit or NVIDIA software is needed.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, Iterable, Optional, Union

from . import _oriole, triton
from ._oriole import InternalError, __version__
from ._programs import oriole_path, ptxas_path
from ._types import BytesLike, CompileError, Cubin, Diagnostic, Finding, Function, OrioleError, _restore

__all__ = [
    "CompileError",
    "Cubin",
    "Diagnostic",
    "Finding",
    "Function",
    "InternalError",
    "OrioleError",
    "__version__",
    "check",
    "compile",
    "disassemble",
    "explain",
    "explain_html",
    "explain_text",
    "oriole_path",
    "ptxas_path",
    "targets",
    "triton",
    "verify",
]

#: PTX: text, its bytes, or the path of a file. A ``str`` is always text, never a path.
Ptx = Union[str, BytesLike, "os.PathLike[str]"]


def _text(ptx: Ptx) -> tuple[bytes, str]:
    """Returns the bytes of PTX and the name to use in messages."""
    if isinstance(ptx, str):
        return ptx.encode(), "<ptx>"
    if isinstance(ptx, (bytes, bytearray, memoryview)):
        return bytes(ptx), "<ptx>"
    if isinstance(ptx, os.PathLike):
        with open(ptx, "rb") as file:
            return file.read(), os.fspath(ptx)
    raise TypeError(f"PTX is a str, bytes or a path, not {type(ptx).__name__}")


def _cubin(cubin: Union[Cubin, BytesLike, "os.PathLike[str]"]) -> Cubin:
    """Returns a cubin for bytes or a path."""
    if isinstance(cubin, Cubin):
        return cubin
    if isinstance(cubin, (bytes, bytearray, memoryview)):
        return Cubin(cubin)
    if isinstance(cubin, os.PathLike):
        return Cubin.read(cubin)
    raise TypeError(f"a cubin is an oriole.Cubin, bytes or a path, not {type(cubin).__name__}")


def _settings(
    arch: Optional[str],
    opt_level: int,
    fmad: bool = True,
    maxrregcount: Optional[int] = None,
    relocatable: bool = False,
    lineinfo: bool = False,
    device_debug: bool = False,
    entries: Iterable[str] = (),
    verify: bool = False,
) -> dict[str, Any]:
    if arch is not None and not isinstance(arch, str):
        raise TypeError(f"arch is a str such as 'sm_90a', not {type(arch).__name__}")
    return {
        "arch": arch,
        "opt_level": opt_level,
        "fmad": fmad,
        "maxrregcount": maxrregcount,
        "relocatable": relocatable,
        "lineinfo": lineinfo,
        "device_debug": device_debug,
        "entries": _names(entries, "entries"),
        "verify": verify,
    }


def _names(names: Iterable[str], what: str) -> list[str]:
    """Returns names as a list. One text would be taken for a list of letters, so it is refused."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"{what} is a list of names, not {type(names).__name__}")
    return list(names)


def _diagnostics(found: list[dict[str, Any]]) -> tuple[Diagnostic, ...]:
    return tuple(Diagnostic(**{**entry, "notes": tuple(entry["notes"])}) for entry in found)


def compile(
    ptx: Ptx,
    arch: Optional[str] = None,
    opt_level: int = 3,
    *,
    fmad: bool = True,
    maxrregcount: Optional[int] = None,
    relocatable: bool = False,
    lineinfo: bool = False,
    device_debug: bool = False,
    entries: Iterable[str] = (),
    verify: bool = False,
) -> Cubin:
    """Compiles PTX to a cubin: the same bytes as ``oriole compile``.

    :param ptx: text, bytes, or the path of a file (``pathlib.Path``; a ``str`` is always text)
    :param arch: the GPU, such as ``"sm_90a"``; without it, the module's own ``.target``
    :param opt_level: 0 to 3
    :param fmad: whether a ``mul`` and an ``add`` without a rounding modifier become one ``fma``
    :param maxrregcount: registers for each thread at most
    :param relocatable: make an object for nvlink
    :param lineinfo: write line tables for debuggers and profilers
    :param device_debug: write line tables and debug sections, and compile without optimization whatever ``opt_level`` is
    :param entries: compile these kernels only
    :param verify: check the code after every pass
    :raises CompileError: if the PTX has errors, or needs what Oriole does not support
    :raises ValueError: if an argument is out of range
    :raises InternalError: if Oriole itself is at fault
    """
    text, name = _text(ptx)
    settings = _settings(arch, opt_level, fmad, maxrregcount, relocatable, lineinfo, device_debug, entries, verify)
    compiled, found = _oriole.compile(text, name, settings)
    diagnostics = _diagnostics(found)
    if compiled is None:
        raise CompileError(diagnostics)
    data, target, reports, remarks = compiled
    from_file = Cubin(data).functions
    known = {report["name"]: report for report in reports}
    functions = {name: replace(function, **known.get(name, {})) for name, function in from_file.items()}
    return _restore(data, functions, diagnostics, tuple(remarks), target)


def check(ptx: Ptx, *, error_limit: int = 100) -> list[Diagnostic]:
    """Parses and checks PTX. Returns errors and warnings in source order; the list is empty for PTX without either."""
    text, name = _text(ptx)
    return list(_diagnostics(_oriole.check(text, name, error_limit)))


def disassemble(
    cubin: Union[Cubin, BytesLike, "os.PathLike[str]"], *, kernel: Optional[str] = None, control: bool = False
) -> str:
    """Returns machine code as text, in the format of ``nvdisasm -c``.

    :param kernel: print this kernel or function only
    :param control: print control words, and all that ``oriole asm`` needs to rebuild the file
    :raises ValueError: if the data is no cubin, or has no such function
    """
    return _oriole.disassemble(_cubin(cubin).data, kernel, control)


def verify(
    cubin: Union[Cubin, BytesLike, "os.PathLike[str]"], *, only: Iterable[str] = (), notes: bool = False
) -> list[Finding]:
    """Checks machine code of any compiler: control words, register dependences on all paths, encodings, attributes.

    :param only: run these verifiers only
    :param notes: return harmless oddities too
    """
    return [Finding(**found) for found in _oriole.verify(_cubin(cubin).data, _names(only, "only"), notes)]


def _explain(
    code: Union[Ptx, Cubin], arch: Optional[str], opt_level: int, maxrregcount: Optional[int], kernels: Iterable[str], form: str
) -> str:
    wanted = _names(kernels, "kernels")
    if isinstance(code, Cubin):
        return _oriole.explain_cubin(code.data, "<cubin>", wanted, form)
    text, name = _text(code)
    # PTX is text: the first bytes of a cubin or of a container are not.
    if text.startswith((b"\x7fELF", b"!<arch>")) or b"\0" in text[:64]:
        return _oriole.explain_cubin(Cubin(text, arch).data, name if name != "<ptx>" else "<cubin>", wanted, form)
    settings = _settings(arch, opt_level, maxrregcount=maxrregcount)
    explanation, found = _oriole.explain_ptx(text, name, settings, wanted, form)
    if explanation is None:
        raise CompileError(_diagnostics(found))
    return explanation


def explain(
    ptx_or_cubin: Union[Ptx, Cubin],
    arch: Optional[str] = None,
    opt_level: int = 3,
    *,
    maxrregcount: Optional[int] = None,
    kernels: Iterable[str] = (),
) -> dict[str, Any]:
    """Explains why code came out as it did, as data with the schema ``oriole-explain/1`` (docs/explain.md).

    PTX is compiled first, and what the passes did is part of the result. A cubin may come from any compiler.

    :param kernels: explain these kernels and functions only
    """
    explanation: dict[str, Any] = json.loads(_explain(ptx_or_cubin, arch, opt_level, maxrregcount, kernels, "json"))
    return explanation


def explain_text(
    ptx_or_cubin: Union[Ptx, Cubin],
    arch: Optional[str] = None,
    opt_level: int = 3,
    *,
    maxrregcount: Optional[int] = None,
    kernels: Iterable[str] = (),
    summary: bool = False,
) -> str:
    """Like :func:`explain`, as text; ``summary`` leaves out the instructions."""
    return _explain(ptx_or_cubin, arch, opt_level, maxrregcount, kernels, "summary" if summary else "text")


def explain_html(
    ptx_or_cubin: Union[Ptx, Cubin],
    arch: Optional[str] = None,
    opt_level: int = 3,
    *,
    maxrregcount: Optional[int] = None,
    kernels: Iterable[str] = (),
) -> str:
    """Like :func:`explain`, as one page for a browser."""
    return _explain(ptx_or_cubin, arch, opt_level, maxrregcount, kernels, "html")


def targets() -> list[str]:
    """Returns the names of all GPUs that Oriole compiles for, such as ``"sm_90a"``."""
    return _oriole.targets()
