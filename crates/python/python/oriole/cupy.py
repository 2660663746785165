"""Compiles kernels for CuPy with Oriole.

>>> import oriole.cupy
>>> saxpy = oriole.cupy.load(ptx).get_function("saxpy")
>>> saxpy((blocks,), (256,), (numpy.uint32(n), numpy.float32(2), x, y))

``load_cuda`` takes CUDA C++, which NVRTC compiles to PTX. For ``cupy.RawModule(..., backend="nvcc")`` see :mod:`oriole.cuda`.
"""

from __future__ import annotations

from typing import Any, Iterable

from . import Ptx, compile


def _arch() -> str:
    """Returns the target of the current device, with the features that only this GPU has."""
    import cupy

    capability = int(cupy.cuda.Device().compute_capability)
    return f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"


def load(ptx: Ptx, **options: Any) -> Any:
    """Compiles PTX for the current device and loads it. Returns a ``cupy.cuda.Module``; its ``get_function(name)`` returns a kernel.

    :param options: those of :func:`oriole.compile`
    """
    from cupy.cuda import Module

    options.setdefault("arch", _arch())
    module = Module()
    module.load(bytes(compile(ptx, **options)))
    return module


def load_cuda(code: str, nvrtc_options: Iterable[str] = (), **options: Any) -> Any:
    """Compiles CUDA C++ with NVRTC and Oriole for the current device and loads it. Names of kernels are those in the PTX: use ``extern "C"``.

    :param nvrtc_options: options of NVRTC, such as ``"--std=c++17"``
    :param options: those of :func:`oriole.compile`
    :raises cupy.cuda.nvrtc.NVRTCError: if the program has errors; the log is in its text
    """
    return load(_ptx(code, list(nvrtc_options)), **options)


def _ptx(code: str, options: list[str]) -> str:
    """Compiles CUDA C++ to PTX for the current device."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(code, "kernel.cu", [], [])
    try:
        try:
            nvrtc.compileProgram(program, [f"--gpu-architecture={_arch().replace('sm_', 'compute_')}", *options])
        except nvrtc.NVRTCError as error:
            log: str = nvrtc.getProgramLog(program)
            error.args = (*error.args, log)
            raise
        ptx = nvrtc.getPTX(program)
    finally:
        nvrtc.destroyProgram(program)
    # Versions of CuPy return bytes or text, with or without the zero at the end.
    return (ptx.decode() if isinstance(ptx, bytes) else str(ptx)).rstrip("\0")
