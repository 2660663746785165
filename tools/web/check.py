#!/usr/bin/env python3
"""Tests the demo page (tools/web-demo.sh) in headless Chromium, and compares the cubins of WebAssembly with those of the native compiler.

Needs: Python with the package `playwright`, a Chromium (`--chromium PATH`), `oriole` (`--oriole PATH`), and axe-core (`--axe PATH` of
axe.min.js) for the accessibility check. See README.md.
"""

import argparse
import base64
import functools
import http.server
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Compiled for targets and at levels of all kinds; every other file for its own target at -O3.
EXAMPLES = sorted((ROOT / "examples").glob("*.ptx"))
EXAMPLE_TARGETS = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"]
# The functions that the worker calls, for texts and options of the test.
COMPARE = """async ([ptx, settings]) => {
    if (!window.oriole) {
        const { Oriole } = await import("./oriole.mjs");
        window.oriole = await Oriole.load(fetch("oriole.wasm"));
    }
    await window.oriole.refresh();
    const { report, output } = window.oriole.compile(Uint8Array.from(atob(ptx), (c) => c.charCodeAt(0)), settings);
    let text = "";
    for (let at = 0; at < output.length; at += 32768) text += String.fromCharCode(...output.subarray(at, at + 32768));
    return [report.ok, btoa(text), report.error ?? report.diagnostics.find((d) => d.severity === "error")?.message ?? ""];
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class Checks:
    def __init__(self, browser, address, axe):
        self.browser, self.address, self.axe, self.failures = browser, address, axe, 0

    def expect(self, condition, what):
        print(("ok      " if condition else "FAILED  ") + what, flush=True)
        self.failures += not condition

    def open(self, scheme="light", width=1400):
        """Opens the page; returns it with the messages of its console and its requests to other places."""
        context = self.browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 950}, accept_downloads=True)
        page = context.new_page()
        messages = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        own = (self.address, "blob:", "data:")
        page.on("request", lambda request: messages.append("request " + request.url) if not request.url.startswith(own) else None)
        page.goto(self.address)
        page.wait_for_selector("html[data-ready=true]", state="attached", timeout=60000)
        return page, messages

    def compiled(self, page, action):
        """Performs an action that compiles, and returns the status line."""
        page.evaluate("document.documentElement.dataset.state = ''")
        action()
        page.wait_for_selector("html[data-state=done]", state="attached", timeout=60000)
        return page.locator("#status").inner_text()

    def behaviour(self, oriole, folder):
        page, messages = self.open()
        self.expect("Compiled for sm_90a" in page.locator("#status").inner_text(), "the first example is compiled")
        self.expect(page.locator("#sass").is_visible() and "S2R" in page.locator("#sass").inner_text(), "the SASS is shown")
        native = subprocess.run([oriole, "disasm", "-"], input=cubin_of(oriole, EXAMPLES[0], "sm_90a", 3, folder), capture_output=True, check=True)
        self.expect(page.locator("#sass pre").text_content() == native.stdout.decode(), "the listing is that of oriole disasm")

        status = self.compiled(page, lambda: page.select_option("#target", "sm_80"))
        self.expect("for sm_80" in status, "another target compiles again")
        self.compiled(page, lambda: page.check("#control"))
        self.expect("[B------" in page.locator("#sass").inner_text(), "control words are shown on demand")

        with page.expect_download() as download:
            page.click("#download")
        same = pathlib.Path(download.value.path()).read_bytes() == cubin_of(oriole, EXAMPLES[0], "sm_80", 3, folder)
        self.expect(same, "the download is the cubin of the native compiler")

        page.click("#tab-explanation")
        frame = page.frame_locator("#page")
        frame.locator("html[data-ready=true]").wait_for(state="attached", timeout=60000)
        frame.locator("tr[id]").nth(4).click()
        details = frame.locator("#details").inner_text()
        self.expect("Stall" in details or "Waits" in details or "scoreboard" in details, "the explanation says why an instruction is as it is")

        text = page.locator("#ptx").input_value()
        page.fill("#ptx", text.replace("shfl.sync", "shlf.sync"))
        page.wait_for_selector("html[data-state=checked]", state="attached")
        self.expect("error" in page.locator("#status").inner_text(), "mistakes are found while typing")
        status = self.compiled(page, lambda: page.click("#compile"))
        self.expect(status.endswith(("error", "errors")) and page.locator("#messages .error").count() > 0, f"errors are shown: {status}")
        self.expect(page.locator("#download").is_hidden(), "no cubin is offered after an error")
        page.locator("#messages .error").first.click()
        marked = page.evaluate("(() => { const t = document.getElementById('ptx'); return t.value.slice(t.selectionStart, t.selectionEnd); })()")
        self.expect("shlf" in marked, f"a click on an error selects its place: {marked}")
        self.expect(messages == [], f"no messages in the console, no requests elsewhere {messages[:3]}")

    def keyboard(self):
        page, messages = self.open()
        page.keyboard.press("Tab")
        self.expect(page.evaluate("document.activeElement.className") == "skip", "the first stop of the tabulator is the skip link")
        page.keyboard.press("Enter")
        page.focus("#ptx")
        status = self.compiled(page, lambda: page.keyboard.press("Control+Enter"))
        self.expect("Compiled" in status, "Control and Enter compile")
        page.focus("#tab-sass")
        page.keyboard.press("ArrowLeft")
        self.expect(page.locator("#messages").is_visible() and page.evaluate("document.activeElement.id") == "tab-messages", "arrow keys choose a tab")
        page.keyboard.press("End")
        self.expect(page.locator("#explanation").is_visible(), "End chooses the last tab")
        page.keyboard.press("Home")
        self.expect(page.locator("[role=tabpanel]:visible").count() == 1, "one panel is visible at a time")
        reached = set()
        for _ in range(20):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id"))
        missed = {"example", "target", "level", "control", "compile", "ptx", "tab-messages", "download"} - reached
        self.expect(not missed, f"all controls are reached with the tabulator {sorted(missed)}")
        self.expect(messages == [], f"no messages in the console, no requests elsewhere {messages[:3]}")

    def accessibility(self):
        for width in [1400, 420]:
            page, _ = self.open(width=width)
            wide = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            self.expect(wide, f"the page does not scroll sideways at {width} pixels")
        if not self.axe:
            print("skipped: accessibility, --axe is not given")
            return
        for scheme in ["light", "dark"]:
            page, _ = self.open(scheme)
            for tab in ["messages", "sass"]:
                page.click(f"#tab-{tab}")
                # axe runs in the page, whose policy does not allow evaluation of texts by the page itself.
                page.evaluate(pathlib.Path(self.axe).read_text())
                found = page.evaluate("() => axe.run({ exclude: ['#page'] }).then((result) => result.violations)")
                for violation in found:
                    print("       ", violation["id"], violation["help"], len(violation["nodes"]), violation["nodes"][0]["html"][:120])
                self.expect(not found, f"axe finds nothing ({scheme}, {tab})")

    def internal_errors(self):
        """A trap is reported, and the module works again afterwards."""
        page, _ = self.open()
        answer = page.evaluate("""async () => {
            const { Oriole, InternalError } = await import("./oriole.mjs");
            const oriole = await Oriole.load(fetch("oriole.wasm"));
            let nested = "1";
            for (let i = 0; i < 200000; i += 1) nested = "(" + nested + ")";
            const text = ".version 8.0\\n.target sm_80\\n.address_size 64\\n.global .u32 x = " + nested + ";\\n";
            let first;
            try { first = oriole.check(text).report.diagnostics[0]?.message ?? "valid"; }
            catch (error) { first = error instanceof InternalError ? error.message : "unexpected: " + error; }
            await oriole.refresh();
            return [first, oriole.check(".version 8.0\\n.target sm_80\\n.address_size 64\\n").report.ok];
        }""")
        self.expect(not answer[0].startswith("unexpected") and answer[1], f"200,000 brackets: {answer[0]}")

    def compare(self, oriole, files, folder):
        """Compares cubins byte for byte. Both compilers must refuse the same files."""
        page, _ = self.open()
        equal = refused = 0
        web_time = 0.0
        cases = [(path, arch, level) for path in EXAMPLES for arch in EXAMPLE_TARGETS for level in (0, 1, 2, 3)]
        cases += [(path, None, 3) for path in files]
        for path, arch, level in cases:
            settings = {"opt_level": level, **({"arch": arch} if arch else {})}
            start = time.monotonic()
            ok, data, error = page.evaluate(COMPARE, [base64.b64encode(path.read_bytes()).decode(), settings])
            web_time += time.monotonic() - start
            expected = cubin_of(oriole, path, arch, level, folder)
            if expected is None and not ok:
                refused += 1
            elif base64.b64decode(data) == expected:
                equal += 1
            else:
                which = f"{path.relative_to(ROOT)} {arch or ''} -O{level}"
                self.expect(False, f"{which}: {'the bytes differ' if ok and expected else f'only one compiles it; {error}'}")
        self.expect(equal > 0 and equal + refused == len(cases),
                    f"{len(cases)} compilations: {equal} cubins equal to the native compiler's, {refused} refused by both; {web_time:.1f} s in the browser")


def cubin_of(oriole, path, arch, level, folder):
    """Returns the cubin of the native compiler, or None if it refuses the file."""
    out = folder / "native.cubin"
    out.unlink(missing_ok=True)
    command = [oriole, "compile", str(path), "-o", str(out), f"-O{level}", *(["--arch", arch] if arch else [])]
    status = subprocess.run(command, capture_output=True).returncode
    return out.read_bytes() if status == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", default=str(ROOT / "target/web-demo"), help="the folder that tools/web-demo.sh writes")
    parser.add_argument("--oriole", default=str(ROOT / "target/debug/oriole"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--axe", help="axe.min.js of the npm package axe-core")
    parser.add_argument("--corpus", type=int, default=1000, metavar="N", help="compare this many files of the corpus at most")
    parser.add_argument("--screenshot", help="where to write a picture of the page")
    arguments = parser.parse_args()
    handler = functools.partial(Quiet, directory=arguments.pages)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = pathlib.Path(folder)
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        checks = Checks(browser, address, arguments.axe)
        checks.behaviour(arguments.oriole, folder)
        checks.keyboard()
        checks.accessibility()
        checks.internal_errors()
        checks.compare(arguments.oriole, sorted((ROOT / "corpus").glob("*.ptx"))[:arguments.corpus], folder)
        if arguments.screenshot:
            page, _ = checks.open()
            page.screenshot(path=arguments.screenshot)
        browser.close()
    server.shutdown()
    print(f"{checks.failures} failed")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
