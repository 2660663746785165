#!/usr/bin/env python3
"""Compares cubins on a GPU: are the results the same, and which are faster? Needs Python and the CUDA driver, nothing else.

    python3 measure.py FOLDER [--sets ptxas,rescored] [--rounds 15] [--kernels NAME,...] > table.tsv

FOLDER has kernel tests, `tests/NAME.ptx`, and for each set of cubins `cubins/SET/NAME.cubin` (bench/bundle.py makes one). The first set is
what the others are held against. Each kernel is launched once for each set with fresh buffers, and all buffers must be equal bit for bit;
where two launches of the first set already differ nothing is compared ("unstable"). Then the sets are timed in turn, round after round:
a run is many launches between two events, behind a kernel that keeps the GPU busy until all of them are in the queue.

Columns: kernel, set, least and median time of a launch in microseconds, the same divided by those of the first set, result (same, DIFFERENT,
unstable, or what went wrong). Lines that begin with # sum up. Kernels run in a process of their own, so that one that hangs or faults is one
line of the table.
"""

import argparse
import ctypes
import hashlib
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import threading

SPIN = b"""
.version 8.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 n)
{
    .reg .b64 %l0; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %l0, [out]; ld.param.u32 %r0, [n]; mov.u32 %r1, 0; mov.u32 %r2, %tid.x;
L:  mad.lo.u32 %r2, %r2, %r2, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra L;
    st.global.u32 [%l0], %r2; ret;
}
"""
SPIN_ROUNDS = 150_000
# Microseconds that a run of launches should take.
RUN_LENGTH = 2000
LIMIT_SECONDS = 60

SIZES = {"u8": 1, "s8": 1, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}
# Exponent bits of one, bits of the fraction.
FLOATS = {"f16": (15, 10), "bf16": (127, 7), "f32": (127, 23), "f64": (1023, 52)}


class Driver:
    def __init__(self, fill):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.cuda.cuInit(0))
        self.check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.cuda.cuCtxSetCurrent(context))
        name = ctypes.create_string_buffer(100)
        self.check(self.cuda.cuDeviceGetName(name, 100, device))
        self.name = name.value.decode()
        self.events = [self.event(), self.event()]
        _, self.filler = self.load(fill, "fill")
        _, spin = self.load(SPIN, "spin")
        self.spin_arguments = [self.allocate(256), ctypes.c_uint32(SPIN_ROUNDS)]
        self.spin = (spin, (1, 1, 1), (32, 1, 1), 0, pointers(self.spin_arguments))

    def check(self, status):
        if status:
            raise RuntimeError(f"CUDA error {status}")

    def event(self):
        event = ctypes.c_void_p()
        self.check(self.cuda.cuEventCreate(ctypes.byref(event), 0))
        return event

    def load(self, image, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), image))
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return module, function

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(size, 16))))
        return address

    def launch(self, function, grid, block, shared, arguments):
        self.check(self.cuda.cuLaunchKernel(function, *grid, *block, shared, None, arguments, None))

    def synchronize(self):
        self.check(self.cuda.cuCtxSynchronize())

    def time(self, launch, count):
        start, end = self.events
        self.launch(*self.spin)
        self.check(self.cuda.cuEventRecord(start, None))
        for _ in range(count):
            self.launch(*launch)
        self.check(self.cuda.cuEventRecord(end, None))
        self.check(self.cuda.cuEventSynchronize(end))
        milliseconds = ctypes.c_float()
        self.check(self.cuda.cuEventElapsedTime(ctypes.byref(milliseconds), start, end))
        return milliseconds.value * 1000 / count

    def fill(self, buffer):
        """Fills a buffer as its header says."""
        kind, count = buffer.kind, buffer.count
        at = 0
        for segment in buffer.fill.split():
            source, _, repeat = segment.partition("*")
            is_value = re.fullmatch(r"[0-9a-f]+", source) is not None
            length = int(repeat) if repeat else 1 if is_value and len(buffer.fill.split()) > 1 else count - at
            word, _, seed = source.partition(":")
            mode, parameter = {"zero": (0, 0), "index": (1, 0), "random": (2, 0)}.get(word, (None, 0))
            if word == "sized" and kind in FLOATS:
                exponent, fraction = FLOATS[kind]
                mode, parameter = 3, exponent << 32 | fraction
            elif word == "sized":
                mode = 5 if kind.startswith("s") else 4
            elif is_value:
                mode, parameter = 0, int(source, 16)
            if mode is None:
                raise ValueError(f"fill {source} is not known here")
            words = [buffer.address, ctypes.c_uint64(at), ctypes.c_uint64(length), ctypes.c_uint32(mode)]
            words += [ctypes.c_uint32(int(seed or 0)), ctypes.c_uint32(SIZES[kind]), ctypes.c_uint64(parameter)]
            self.launch(self.filler, (1024, 1, 1), (256, 1, 1), 0, pointers(words))
            at += length
        self.synchronize()

    def contents(self, buffer):
        size = buffer.count * SIZES[buffer.kind]
        data = ctypes.create_string_buffer(size)
        self.check(self.cuda.cuMemcpyDtoH_v2(data, buffer.address, ctypes.c_size_t(size)))
        return hashlib.blake2b(data.raw).hexdigest()


def pointers(arguments):
    """Arguments as the driver takes them."""
    return (ctypes.c_void_p * len(arguments))(*[ctypes.cast(ctypes.byref(argument), ctypes.c_void_p) for argument in arguments])


class Buffer:
    def __init__(self, driver, kind, count, fill):
        self.kind, self.count, self.fill = kind, count, fill
        self.address = driver.allocate(count * SIZES[kind])


def header(path):
    values, parameters = {}, []
    for line in path.read_text().splitlines():
        if not line.startswith("// ") or line.startswith("//   "):
            break
        key, _, value = line[3:].partition(": ")
        if key.startswith("param "):
            parameters.append(value)
        else:
            values.setdefault(key, value)
    return values, parameters


def scalar(kind, bits):
    value = int(bits, 16)
    return {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}[SIZES[kind]](value)


def prepare(driver, path):
    values, parameters = header(path)
    shape = [tuple(map(int, values[key].split())) for key in ("grid", "block")]
    arguments, buffers = [], []
    for parameter in parameters:
        kind, _, fill = parameter.partition(" = ")
        found = re.fullmatch(r"(\w+)\[(\d+)\]", kind)
        if found:
            buffers.append(Buffer(driver, found[1], int(found[2]), fill))
            arguments.append(buffers[-1].address)
        else:
            arguments.append(scalar(kind, fill))
    return values["kernel"], shape, int(values.get("shared", 0)), arguments, buffers


def results(driver, launch, buffers):
    for buffer in buffers:
        driver.fill(buffer)
    driver.launch(*launch)
    driver.synchronize()
    return [driver.contents(buffer) for buffer in buffers]


def measure(driver, folder, name, sets, rounds):
    """One kernel: for each set its times and its verdict."""
    kernel, (grid, block), shared, arguments, buffers = prepare(driver, folder / "tests" / f"{name}.ptx")
    launches = {}
    for label in sets:
        cubin = folder / "cubins" / label / f"{name}.cubin"
        if cubin.exists():
            _, function = driver.load(cubin.read_bytes(), kernel)
            launches[label] = (function, grid, block, shared, pointers(arguments))
    verdicts = {}
    first = next(iter(launches))
    expected = results(driver, launches[first], buffers)
    stable = results(driver, launches[first], buffers) == expected
    for label, launch in launches.items():
        found = results(driver, launch, buffers)
        verdicts[label] = "unstable" if not stable else "same" if found == expected else "DIFFERENT"
    counts = {}
    for label, launch in launches.items():
        counts[label] = max(5, min(100, int(RUN_LENGTH / driver.time(launch, 3))))
    times = {label: [] for label in launches}
    for _ in range(rounds):
        for label, launch in launches.items():
            times[label].append(driver.time(launch, counts[label]))
    return {label: (min(times[label]), statistics.median(times[label]), verdicts[label]) for label in launches}


def work(folder, names, sets, rounds):
    """A worker: a line of JSON before and after each kernel."""
    driver = Driver((folder / "fill.ptx").read_bytes())
    print(json.dumps({"device": driver.name}), flush=True)
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        try:
            print(json.dumps({"kernel": name, "sets": measure(driver, folder, name, sets, rounds)}), flush=True)
        except ValueError as error:
            print(json.dumps({"kernel": name, "failed": str(error)}), flush=True)
        except RuntimeError as error:
            # The context may be lost; the next kernel gets a new process.
            print(json.dumps({"kernel": name, "failed": str(error)}), flush=True)
            return


def run_worker(options, names):
    """Lines of a worker that does as many of these kernels as it can; stops one that takes too long for a kernel."""
    command = [sys.executable, __file__, options.folder, "--sets", ",".join(options.sets), "--rounds", str(options.rounds)]
    worker = subprocess.Popen([*command, "--kernels", ",".join(names), "--worker"], stdout=subprocess.PIPE, text=True)
    timer = None
    for line in worker.stdout:
        if timer:
            timer.cancel()
        timer = threading.Timer(LIMIT_SECONDS, worker.kill)
        timer.start()
        yield json.loads(line)
    if timer:
        timer.cancel()
    worker.wait()


def report(name, sets, ratios, out):
    first = next(iter(sets.values()))
    for label, (least, median, verdict) in sets.items():
        ratios.setdefault(label, []).append((median / first[1], least / first[0], name, verdict))
        print(f"{name}\t{label}\t{least:.3f}\t{median:.3f}\t{least / first[0]:.4f}\t{median / first[1]:.4f}\t{verdict}", file=out, flush=True)


def sum_up(ratios, failed, out):
    for label, list_ in ratios.items():
        mean = [math.exp(statistics.fmean(math.log(entry[which]) for entry in list_)) for which in (1, 0)]
        worst, best = max(list_), min(list_)
        counts = {verdict: sum(entry[3] == verdict for entry in list_) for verdict in ("same", "DIFFERENT", "unstable")}
        print(f"# {label}: {len(list_)} kernels; geometric mean {mean[0]:.4f} (least), {mean[1]:.4f} (median); "
              f"worst {worst[0]:.3f} {worst[2]}; best {best[0]:.3f} {best[2]}; {counts}", file=out)
        different = [entry[2] for entry in list_ if entry[3] == "DIFFERENT"]
        if different:
            print(f"# {label}: different: {' '.join(different)}", file=out)
    print(f"# failed: {len(failed)} {' '.join(failed)}", file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sets", type=lambda text: text.split(","))
    parser.add_argument("--kernels", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)
    known = sorted((path.name for path in (folder / "cubins").iterdir()), key=lambda name: (name != "ptxas", name))
    options.sets = options.sets or known
    names = options.kernels or sorted(path.stem for path in (folder / "tests").glob("*.ptx"))
    if options.worker:
        return work(folder, names, options.sets, options.rounds)
    ratios, failed, device = {}, [], None
    while names:
        begun = None
        for line in run_worker(options, names):
            if "device" in line and device is None:
                device = line["device"]
                print(f"# Measured by bench/measure.py on {device}, {options.rounds} rounds. Times in microseconds.")
                print("kernel\tset\tleast\tmedian\tleast ratio\tmedian ratio\tresult", flush=True)
            elif "begin" in line:
                begun = line["begin"]
            elif "kernel" in line:
                begun = None
                names.remove(line["kernel"])
                if "failed" in line:
                    failed.append(line["kernel"])
                    print(f"{line['kernel']}\t-\t\t\t\t\t{line['failed']}", flush=True)
                else:
                    report(line["kernel"], line["sets"], ratios, sys.stdout)
        if begun is not None:
            names.remove(begun)
            failed.append(begun)
            print(f"{begun}\t-\t\t\t\t\ttook too long, or the process died", flush=True)
        elif device is None:
            print("error: no GPU can be used", file=sys.stderr)
            return 1
    sum_up(ratios, failed, sys.stdout)
    return 1 if failed or any(entry[3] == "DIFFERENT" for list_ in ratios.values() for entry in list_) else 0


if __name__ == "__main__":
    sys.exit(main())
