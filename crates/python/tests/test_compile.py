import json
import multiprocessing
import pickle
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import oriole

TWO_KERNELS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry first() { ret; }
.visible .entry second() { ret; }
"""


def command_line(tmp_path: Path, source: Path, *options: str) -> bytes:
    """Compiles with the program in the package."""
    output = tmp_path / "out.cubin"
    subprocess.run([oriole.oriole_path(), "compile", str(source), "-o", str(output), *options], check=True)
    return output.read_bytes()


@pytest.mark.parametrize("arch", [None, "sm_80", "sm_90a", "sm_120"])
def test_the_bytes_are_those_of_the_command_line(tmp_path, example, arch):
    options = [] if arch is None else ["--arch", arch]
    cubin = oriole.compile(example.read_text(), arch)
    assert bytes(cubin) == command_line(tmp_path, example, *options)
    assert cubin.arch == (arch or "sm_80")


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_levels(tmp_path, block_sum, level):
    assert oriole.compile(block_sum, "sm_90a", level).data == command_line(tmp_path, block_sum, "--arch", "sm_90a", f"-O{level}")


@pytest.mark.parametrize(
    "keywords, options",
    [
        ({"fmad": False}, ["--fmad", "false"]),
        ({"maxrregcount": 24}, ["--maxrregcount", "24"]),
        ({"relocatable": True}, ["-c"]),
        ({"lineinfo": True}, ["--lineinfo"]),
        ({"device_debug": True}, ["-g"]),
        ({"entries": ["block_sum"]}, ["--entry", "block_sum"]),
        ({"verify": True}, ["--verify"]),
    ],
)
def test_options(tmp_path, block_sum, keywords, options):
    assert oriole.compile(block_sum, **keywords).data == command_line(tmp_path, block_sum, *options)


def test_text_bytes_and_paths_are_the_same(saxpy):
    text = saxpy.read_bytes()
    inputs = [text.decode(), text, bytearray(text), memoryview(text), saxpy]
    assert len({oriole.compile(ptx) for ptx in inputs}) == 1


def test_resources_are_those_that_the_command_line_reports(tmp_path, example):
    command = [oriole.oriole_path(), "compile", str(example), "-o", str(tmp_path / "out.cubin"), "--arch", "sm_90a", "--json"]
    reports = map(json.loads, subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    functions = oriole.compile(example, "sm_90a").functions
    shared = ["registers", "barriers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "shared_bytes", "instructions"]
    expected = {report["function"]: (report["kernel"], *(report[what] for what in shared)) for report in reports}
    assert {name: (function.is_kernel, *(getattr(function, what) for what in shared)) for name, function in functions.items()} == expected


def test_resources_that_the_text_determines(block_sum):
    # One barrier, and an array of eight 32-bit partial sums in shared memory.
    kernel = oriole.compile(block_sum, "sm_90a").kernels["block_sum"]
    assert (kernel.is_kernel, kernel.barriers, kernel.stack_bytes, kernel.shared_bytes) == (True, 1, 0, 32)
    assert 8 <= kernel.registers <= 32


def test_a_cubin_that_is_read_has_the_same_resources(tmp_path, example):
    compiled = oriole.compile(example, "sm_90a")
    path = tmp_path / "a.cubin"
    compiled.write(path)
    read = oriole.Cubin.read(path)
    assert read == compiled and hash(read) == hash(compiled) and len(read) == path.stat().st_size
    assert read.arch == "sm_90a" and not read.relocatable
    for name, function in compiled.kernels.items():
        other = read.kernels[name]
        for what in ["registers", "barriers", "stack_bytes", "shared_bytes", "code_bytes"]:
            assert getattr(other, what) == getattr(function, what), what
        assert 0 < function.instructions * 16 <= function.code_bytes and other.instructions is None


def test_entries_select_kernels():
    assert set(oriole.compile(TWO_KERNELS).kernels) == {"first", "second"}
    assert list(oriole.compile(TWO_KERNELS, entries=["second"]).kernels) == ["second"]


def test_relocatable_files_say_so(saxpy):
    assert oriole.compile(saxpy, relocatable=True).relocatable


def test_the_result_is_deterministic(example):
    assert len({oriole.compile(example, "sm_90a").data for _ in range(5)}) == 1


def test_threads_in_parallel_have_the_results_of_one_thread(example):
    expected = {arch: oriole.compile(example, arch).data for arch in ["sm_80", "sm_89", "sm_90a", "sm_120"]}
    with ThreadPoolExecutor(8) as pool:
        jobs = [(arch, pool.submit(oriole.compile, example, arch)) for arch in expected for _ in range(6)]
        for arch, job in jobs:
            assert job.result().data == expected[arch]


def test_other_threads_run_during_a_compilation():
    # One kernel with many instructions, so that the compilation takes much longer than a switch of threads.
    body = "\n".join(f"mad.lo.s32 %r{1 + i % 7}, %r{1 + (i + 1) % 7}, %r{1 + (i + 3) % 7}, {i};" for i in range(20000))
    ptx = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<9>;\n.reg .b64 %rd<2>;\n"
        "ld.param.u64 %rd1, [p];\n"
        + "".join(f"ld.global.u32 %r{i}, [%rd1+{4 * i}];\n" for i in range(1, 8))
        + body
        + "".join(f"\nst.global.u32 [%rd1+{4 * i}], %r{i};" for i in range(1, 8))
        + "\nret;\n}\n"
    )
    ticks, done = 0, threading.Event()

    def tick():
        nonlocal ticks
        while not done.is_set():
            time.sleep(0.001)
            ticks += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    while ticks == 0:
        time.sleep(0.001)
    before = ticks
    oriole.compile(ptx, "sm_90a")
    during = ticks - before
    done.set()
    ticker.join()
    # With the lock held there would be one tick before the compilation and one after it.
    assert during >= 8


def _compile_in_process(path):
    return oriole.compile(path, "sm_90a")


@pytest.mark.parametrize("method", [m for m in ["fork", "spawn"] if m in multiprocessing.get_all_start_methods()])
def test_processes(saxpy, method):
    expected = oriole.compile(saxpy, "sm_90a")
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.map_async(_compile_in_process, [saxpy] * 4).get(timeout=120)
    assert results == [expected] * 4
    assert results[0].kernels == expected.kernels


def test_pickled_cubins_are_equal(saxpy):
    cubin = oriole.compile(saxpy, "sm_90a")
    again = pickle.loads(pickle.dumps(cubin))
    assert again == cubin and again.functions == cubin.functions and again.arch == "sm_90a"


def test_targets():
    names = oriole.targets()
    assert {"sm_75", "sm_80", "sm_90a", "sm_100", "sm_121"} <= set(names)
    empty = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k() { ret; }"
    assert [oriole.compile(empty, arch).arch for arch in names] == names


def test_a_family_target_keeps_its_name():
    ptx = ".version 9.0\n.target sm_100f\n.address_size 64\n.visible .entry k() { ret; }"
    assert oriole.compile(ptx, "sm_100f").arch == "sm_100f"
