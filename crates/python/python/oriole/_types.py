"""Classes of the package: cubins, diagnostics, findings, and errors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Iterable, Literal, Mapping, Optional, Union

from . import _oriole

#: The bytes of a file.
BytesLike = Union[bytes, bytearray, memoryview]


@dataclass(frozen=True)
class Diagnostic:
    """An error or a warning about PTX. Lines and columns count from 1; they are ``None`` if it concerns the whole module."""

    severity: Literal["error", "warning"]
    code: str  #: stable code, such as ``"E0702"``; ``oriole codes`` explains it
    message: str
    line: Optional[int] = None
    column: Optional[int] = None
    end_line: Optional[int] = None
    end_column: Optional[int] = None
    label: Optional[str] = None  #: text next to the marked range
    notes: tuple[str, ...] = ()
    help: Optional[str] = None  #: a suggestion
    rendered: str = field(default="", repr=False, compare=False)  #: the text that the command line tool prints, with the source line

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    def __str__(self) -> str:
        place = "" if self.line is None else f"{self.line}:{self.column}: "
        return f"{place}{self.severity}[{self.code}]: {self.message}"


@dataclass(frozen=True)
class Finding:
    """What a verifier reports about machine code. Addresses are byte offsets in the code of the function."""

    section: str  #: name of the section, ``.text.NAME``
    verifier: str  #: bounds, indices, waits, completeness, format, yields or integrity
    kind: str  #: stable short name of the problem
    severity: Literal["hazard", "note"]  #: a hazard may cause wrong results, a note is harmless
    message: str
    address: Optional[int] = None  #: ``None`` if it concerns the whole function
    instruction: Optional[str] = None
    first_address: Optional[int] = None  #: address of an earlier instruction that is involved
    first_instruction: Optional[str] = None

    @property
    def is_hazard(self) -> bool:
        return self.severity == "hazard"

    def __str__(self) -> str:
        place = "" if self.address is None else f" {self.address:#06x}"
        return f"{self.section}{place}: {self.message} [{self.verifier}]"


@dataclass(frozen=True)
class Function:
    """A kernel or a device function of a cubin, and the resources that it needs."""

    name: str
    is_kernel: bool
    registers: int  #: registers of each thread
    barriers: int  #: named barriers
    stack_bytes: int  #: bytes of the stack frame of each thread, spill slots included
    shared_bytes: int  #: bytes of static shared memory of each block
    code_bytes: int  #: size of the code, padding included
    instructions: Optional[int] = None  #: number of instructions without padding; only known after :func:`compile`
    spill_store_bytes: Optional[int] = None  #: bytes that spill stores write; only known after :func:`compile`
    spill_load_bytes: Optional[int] = None  #: bytes that spill loads read; only known after :func:`compile`


class Cubin:
    """A cubin: machine code that the CUDA driver loads (``cuModuleLoadData(bytes(cubin))``).

    ``Cubin(data)`` reads the output of any compiler. ``data`` may also be a fatbin, an object file, a library or an executable with one
    cubin, or with one cubin for ``arch``. Two cubins are equal if their bytes are equal.
    """

    __slots__ = ("_data", "arch", "relocatable", "functions", "warnings", "remarks")

    arch: str  #: the target, such as ``"sm_90a"``
    relocatable: bool  #: whether it is an object for nvlink
    functions: Mapping[str, Function]  #: all functions by name, in the order of the file
    warnings: tuple[Diagnostic, ...]  #: warnings of :func:`compile`
    remarks: tuple[str, ...]  #: remarks of :func:`compile`, for example about ignored launch bounds

    def __init__(self, data: BytesLike, arch: Optional[str] = None) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"a cubin is bytes, not {type(data).__name__}")
        self._data, described = _oriole.read(bytes(data), arch)
        self.arch = described["arch"]
        self.relocatable = described["relocatable"]
        self._set_functions({entry["name"]: Function(**entry) for entry in described["functions"]})
        self.warnings = ()
        self.remarks = ()

    def _set_functions(self, functions: dict[str, Function]) -> None:
        self.functions = MappingProxyType(functions)

    @classmethod
    def read(cls, path: Union[str, "os.PathLike[str]"], arch: Optional[str] = None) -> Cubin:
        """Reads a file."""
        with open(path, "rb") as file:
            return cls(file.read(), arch)

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self._data

    @property
    def kernels(self) -> Mapping[str, Function]:
        """The kernels by name."""
        return MappingProxyType({name: function for name, function in self.functions.items() if function.is_kernel})

    @property
    def registers(self) -> Mapping[str, int]:
        """Registers of each thread, by kernel."""
        return MappingProxyType({name: function.registers for name, function in self.kernels.items()})

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the file."""
        with open(path, "wb") as file:
            file.write(self._data)

    def disassemble(self, *, kernel: Optional[str] = None, control: bool = False) -> str:
        """See :func:`oriole.disassemble`."""
        from . import disassemble

        return disassemble(self, kernel=kernel, control=control)

    def verify(self, *, only: tuple[str, ...] = (), notes: bool = False) -> list[Finding]:
        """See :func:`oriole.verify`."""
        from . import verify

        return verify(self, only=only, notes=notes)

    def explain(self, *, kernels: tuple[str, ...] = ()) -> dict[str, Any]:
        """See :func:`oriole.explain`."""
        from . import explain

        return explain(self, kernels=kernels)

    def __bytes__(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, Cubin) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        return f"<oriole.Cubin {self.arch}, {len(self._data)} bytes, kernels {', '.join(self.kernels) or 'none'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._data, dict(self.functions), self.warnings, self.remarks, self.arch))


def _restore(
    data: bytes, functions: dict[str, Function], warnings: tuple[Diagnostic, ...], remarks: tuple[str, ...], arch: str
) -> Cubin:
    """Makes a cubin with what :func:`compile` knows about it."""
    cubin = Cubin(data)
    cubin.arch = arch
    cubin._set_functions(functions)
    cubin.warnings = warnings
    cubin.remarks = remarks
    return cubin


class OrioleError(Exception):
    """Base class of the errors about inputs."""


class CompileError(OrioleError):
    """PTX that does not compile. The text has every error with its source line."""

    diagnostics: tuple[Diagnostic, ...]  #: all errors and warnings, in source order

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics without the warnings."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.is_error)

    def __str__(self) -> str:
        return "\n\n".join(diagnostic.rendered or str(diagnostic) for diagnostic in self.errors)
