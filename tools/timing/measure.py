"""Times the kernels of tools/timing/kernels on a GPU, through the CUDA driver alone.

    python3 measure.py KERNELS COMPILER=CUBINS... > h200.tsv

Each kernel is launched a few times, then in runs of many launches between two events, behind a kernel that keeps the GPU busy until all of
them are in the queue; the figure is the least time of a run divided by its launches, in microseconds. A kernel that reads %clock64 and %globaltimer tells how fast the multiprocessors run meanwhile; it is
given as PTX and compiled by the driver. Columns: kernel, compiler, microseconds, clock in MHz.
"""

import ctypes
import pathlib
import re
import struct
import sys

CLOCK = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry clock(.param .u64 out, .param .u32 n)
{
    .reg .b64 %l<16>; .reg .b32 %r<8>; .reg .pred %p;
    ld.param.u64 %l0, [out]; ld.param.u32 %r0, [n]; mov.u32 %r1, 0; mov.u32 %r2, %tid.x;
    mov.u64 %l1, %clock64; mov.u64 %l2, %globaltimer;
L:  mad.lo.u32 %r2, %r2, %r2, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra L;
    mov.u64 %l3, %clock64; mov.u64 %l4, %globaltimer;
    sub.u64 %l1, %l3, %l1; sub.u64 %l2, %l4, %l2;
    st.global.u64 [%l0], %l1; st.global.u64 [%l0+8], %l2; st.global.u32 [%l0+16], %r2; ret;
}
"""


class Driver:
    def __init__(self):
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
        self.spin = None

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

    def buffer(self, data):
        address = ctypes.c_uint64()
        self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(len(data), 4))))
        self.check(self.cuda.cuMemcpyHtoD_v2(address, data, ctypes.c_size_t(len(data))))
        return address

    def launch(self, function, grid, block, shared, arguments):
        pointers = arguments if isinstance(arguments, ctypes.Array) else (ctypes.c_void_p * len(arguments))(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments])
        self.check(self.cuda.cuLaunchKernel(function, *grid, *block, shared, None, pointers, None))

    def time(self, function, grid, block, shared, arguments, count):
        start, end = self.events
        if self.spin:
            self.launch(*self.spin)
        self.check(self.cuda.cuEventRecord(start, None))
        arguments = (ctypes.c_void_p * len(arguments))(*[ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments])
        for _ in range(count):
            self.launch(function, grid, block, shared, arguments)
        self.check(self.cuda.cuEventRecord(end, None))
        self.check(self.cuda.cuEventSynchronize(end))
        milliseconds = ctypes.c_float()
        self.check(self.cuda.cuEventElapsedTime(ctypes.byref(milliseconds), start, end))
        return milliseconds.value * 1000 / count


def contents(count, fill):
    if fill == "zero":
        return bytes(4 * count)
    if fill == "index":
        return memoryview((ctypes.c_uint32 * count)(*range(count))).cast("B").tobytes()
    raise ValueError(fill)


def header(path):
    values, parameters = {}, []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        key, _, value = line[3:].partition(": ")
        if key.startswith("param "):
            parameters.append(value)
        else:
            values[key] = value
    return values, parameters


def clock_rate(driver):
    module, function = driver.load(CLOCK, "clock")
    out = driver.buffer(bytes(32))
    for _ in range(3):
        driver.launch(function, (1, 1, 1), (32, 1, 1), 0, [out, ctypes.c_uint32(100_000)])
    result = ctypes.create_string_buffer(16)
    driver.check(driver.cuda.cuMemcpyDtoH_v2(result, out, ctypes.c_size_t(16)))
    cycles, nanoseconds = struct.unpack("<2Q", result.raw)
    driver.cuda.cuMemFree_v2(out)
    driver.cuda.cuModuleUnload(module)
    return cycles * 1000 / nanoseconds


def main():
    driver = Driver()
    print(f"# Measured by tools/timing/measure.py on {driver.name}: kernel, compiler, microseconds of a launch among many, clock in MHz.")
    cache = {}
    _, clock = driver.load(CLOCK, "clock")
    scratch = driver.buffer(bytes(32))
    driver.spin = (clock, (1, 1, 1), (32, 1, 1), 0, [scratch, ctypes.c_uint32(200_000)])
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.ptx")):
        values, parameters = header(path)
        grid, block = (tuple(map(int, values[key].split())) for key in ("grid", "block"))
        arguments = []
        for parameter in parameters:
            kind, fill = parameter.split(" = ")
            found = re.fullmatch(r"u32\[(\d+)\]", kind)
            if found:
                count = int(found[1])
                if (count, fill) not in cache:
                    cache[count, fill] = contents(count, fill)
                arguments.append(driver.buffer(cache[count, fill]))
            else:
                arguments.append(ctypes.c_uint32(int(fill, 16)))
        for compiler, _, folder in (argument.partition("=") for argument in sys.argv[2:]):
            cubin = pathlib.Path(folder) / f"{path.stem}.cubin"
            if not cubin.exists():
                continue
            module, function = driver.load(cubin.read_bytes(), values["kernel"])
            first = driver.time(function, grid, block, 0, arguments, 5)
            count = max(10, min(100, int(2000 / first)))
            rate = clock_rate(driver)
            best = min(driver.time(function, grid, block, 0, arguments, count) for _ in range(5))
            print(f"{path.stem}\t{compiler}\t{best:.3f}\t{(rate + clock_rate(driver)) / 2:.0f}", flush=True)
            driver.cuda.cuModuleUnload(module)
        for argument in arguments:
            if isinstance(argument, ctypes.c_uint64):
                driver.cuda.cuMemFree_v2(argument)


main()
