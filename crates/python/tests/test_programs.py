import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import oriole
import oriole.triton
from oriole import _programs


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Removes the variables before a test and restores them after it."""
    for variable in ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"]:
        monkeypatch.delenv(variable, raising=False)
    yield
    oriole.triton.uninstall()


def test_the_package_has_the_programs():
    folder = Path(oriole.__file__).parent
    for path in [oriole.ptxas_path(), oriole.oriole_path()]:
        assert Path(path).is_relative_to(folder)
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        assert oriole.__version__ in answer and "oriole" in answer.lower()


def test_ptxas_compiles(tmp_path, saxpy):
    output = tmp_path / "saxpy.cubin"
    subprocess.run([oriole.ptxas_path(), "-arch=sm_90a", str(saxpy), "-o", str(output)], check=True)
    assert output.read_bytes() == oriole.compile(saxpy, "sm_90a").data


def test_the_command_line_tool_runs(saxpy):
    for command in [[sys.executable, "-m", "oriole"], [str(Path(sys.executable).parent / "oriole")]]:
        assert subprocess.run([*command, "check", str(saxpy)], capture_output=True, check=False).returncode == 0
        assert subprocess.run([*command, "check", os.devnull], capture_output=True, check=False).returncode == 1


def test_without_programs_in_the_package_those_on_the_path_are_used(tmp_path, monkeypatch):
    ours = oriole.ptxas_path()
    monkeypatch.setattr(_programs, "__file__", str(tmp_path / "nowhere" / "_programs.py"))
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(FileNotFoundError, match="ptxas"):
        oriole.ptxas_path()
    # A ptxas of another vendor is not taken. (Not a script: `cat` answers --version without the name Oriole.)
    shutil.copy("/bin/cat", folder / "ptxas")
    with pytest.raises(FileNotFoundError):
        oriole.ptxas_path()
    shutil.copy(ours, folder / "ptxas")
    assert oriole.ptxas_path() == str(folder / "ptxas")


def test_install_sets_the_variable():
    path = oriole.triton.install()
    assert os.environ["TRITON_PTXAS_PATH"] == path == oriole.ptxas_path()
    assert "TRITON_PTXAS_BLACKWELL_PATH" not in os.environ
    assert oriole.triton.install(blackwell=True) == os.environ["TRITON_PTXAS_BLACKWELL_PATH"]
    oriole.triton.uninstall()
    assert "TRITON_PTXAS_PATH" not in os.environ and "TRITON_PTXAS_BLACKWELL_PATH" not in os.environ


def test_uninstall_restores_the_variable(monkeypatch):
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/other/ptxas")
    oriole.triton.install()
    oriole.triton.install()
    oriole.triton.uninstall()
    assert os.environ["TRITON_PTXAS_PATH"] == "/other/ptxas"


def test_install_refuses_what_is_no_program(tmp_path):
    with pytest.raises(FileNotFoundError):
        oriole.triton.install(tmp_path / "missing")
    assert "TRITON_PTXAS_PATH" not in os.environ


def test_knobs_of_an_imported_triton_are_set(monkeypatch):
    class Knob:
        """Like a knob of Triton 3.6: a value that was set wins over the variable."""

        def __get__(self, owner, kind=None):
            return self if owner is None else owner.__dict__.get("ptxas", os.environ.get("TRITON_PTXAS_PATH"))

        def __set__(self, owner, value):
            owner.__dict__["ptxas"] = value

        def __delete__(self, owner):
            owner.__dict__.pop("ptxas", None)

    class Nvidia:
        ptxas = Knob()

    cleared = []
    version = types.SimpleNamespace(cache_clear=lambda: cleared.append(True))
    nvidia = Nvidia()
    nvidia.ptxas = "/other/ptxas"
    monkeypatch.setitem(sys.modules, "triton.knobs", types.SimpleNamespace(nvidia=nvidia))
    monkeypatch.setitem(sys.modules, "triton.backends.nvidia.compiler", types.SimpleNamespace(get_ptxas_version=version))
    path = oriole.triton.install(blackwell=True)
    assert nvidia.ptxas == path and cleared
    oriole.triton.uninstall()
    assert nvidia.ptxas is None
