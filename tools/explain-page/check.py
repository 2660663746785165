#!/usr/bin/env python3
"""Checks the page of `oriole explain --html` in headless Chromium.

Needs: Python with the package `playwright`, a Chromium (`--chromium PATH`), and axe-core (`--axe PATH` of axe.min.js) for the
accessibility check. See README.md.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Instructions of the generated kernels, and the longest time to interactive in seconds.
SIZES = [(2000, 1.0), (15000, 4.0)]


def long_kernel(instructions):
    """Returns PTX that compiles to about this number of instructions, in blocks of different lengths."""
    lines = [
        ".version 8.0", ".target sm_80", ".address_size 64",
        ".visible .entry long_kernel(.param .u64 in, .param .u64 out)", "{",
        ".reg .f32 %f<20>;", ".reg .b64 %a<4>;", ".reg .b32 %r<4>;", ".reg .pred %p<2>;",
        "ld.param.u64 %a0, [in];", "ld.param.u64 %a1, [out];", "mov.u32 %r0, %tid.x;",
        "mul.wide.u32 %a2, %r0, 4;", "add.u64 %a0, %a0, %a2;", "add.u64 %a1, %a1, %a2;", "mov.f32 %f0, 0f00000000;",
    ]
    # A product and a sum become one instruction, so that four PTX instructions are three.
    for number in range(instructions // 3 + 8):
        if number % 150 == 149:
            lines += [f"setp.gt.f32 %p0, %f0, 0f{number:08x};", f"@%p0 bar.sync 0;", f"@%p0 bra skip{number};",
                      f"st.volatile.global.f32 [%a1+{4 * number}], %f0;", f"skip{number}:"]
        lines += [f"ld.volatile.global.f32 %f{1 + number % 8}, [%a0+{number % 1000 * 4}];",
                  f"fma.rn.f32 %f0, %f{1 + (number + 3) % 8}, %f0, %f{1 + number % 8};",
                  f"mul.f32 %f{1 + (number + 1) % 8}, %f0, 0f3f800001;", f"add.f32 %f0, %f0, %f{1 + (number + 1) % 8};"]
    return "\n".join(lines + ["st.global.f32 [%a1], %f0;", "ret;", "}", ""])


def write_page(oriole, source, page, *options):
    subprocess.run([oriole, "explain", str(source), "--arch", "sm_90a", "--html", str(page), *options], check=True, cwd=ROOT)


class Checks:
    def __init__(self, browser, axe):
        self.browser, self.axe, self.failures = browser, axe, 0

    def expect(self, condition, what):
        print(("ok      " if condition else "FAILED  ") + what)
        self.failures += not condition

    def open(self, path, scheme="light", fragment=""):
        """Opens a page; returns it, the messages of its console, and the time until its script has run."""
        context = self.browser.new_context(color_scheme=scheme, viewport={"width": 1400, "height": 950})
        page = context.new_page()
        messages = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append("request " + request.url) if not request.url.startswith("file:") else None)
        start = time.monotonic()
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("html[data-ready=true]", state="attached")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return page, messages, time.monotonic() - start

    def behaviour(self, path):
        page, messages, _ = self.open(path)
        row = page.locator("tr[id]").nth(4)
        row.click()
        line = row.get_attribute("data-line")
        details = page.locator("#details").inner_text()
        self.expect("Here: " in details and "Form: " in details, "the reasons of place and form are shown")
        self.expect("Stall" in details or "Waits" in details or "scoreboard" in details, "a click shows why an instruction is as it is")
        self.expect(page.locator(f'#ptx-{line}.linked').count() == 1, "the PTX line of the instruction is marked")
        self.expect(page.url.endswith("#" + row.get_attribute("id")), "the address of the page names the instruction")
        page.locator(f'#ptx-{line}').click()
        linked = page.locator(f'tr[data-line="{line}"].linked').count()
        self.expect(linked == page.locator(f'tr[data-line="{line}"]').count() > 0, "a click on a PTX line marks its instructions")
        page.locator("tr[id] a").first.focus()
        page.keyboard.press("ArrowDown")
        self.expect(page.evaluate("document.activeElement.closest('tr').id") == "f0-i0010", "the arrow keys move through the listing")
        page.fill("#search", "BAR")
        page.keyboard.press("Enter")
        self.expect(" of " in page.locator("#found").inner_text(), "the search counts what it finds")
        self.expect("BAR" in page.locator("tr.chosen").inner_text(), "the search selects an instruction")
        page.fill("#search", "no such text")
        self.expect(page.locator("#found").inner_text() == "not found", "the search says when nothing is found")
        page.locator("#f0-timeline").scroll_into_view_if_needed()
        page.wait_for_selector("#f0-timeline svg rect")
        first = page.locator("#f0-timeline svg rect").count()
        page.select_option("#f0-block", "1")
        second = page.locator("#f0-timeline svg rect").count()
        self.expect(first > 10 and second > 0 and first != second, "the timeline shows the selected block")
        self.expect(messages == [], f"no messages in the console, no requests {messages[:3]}")
        page, messages, _ = self.open(path, fragment="#f0-i0040")
        self.expect(page.locator("#f0-i0040.chosen").count() == 1, "a link to an instruction selects it")

    def comparison(self, path):
        page, messages, _ = self.open(path)
        row = page.locator("tr[data-first][data-second]").nth(2)
        row.click()
        details = page.locator("#details").inner_text()
        self.expect("block_sum.ptx: " in details and "old.cubin: " in details, "a click shows both instructions of a row")
        self.expect(page.url.endswith("#" + row.get_attribute("id")), "the address of the page names the row")
        second = page.locator("tr[data-first] a[id]").nth(3).get_attribute("id")
        page.locator("tr[id] a").first.focus()
        page.keyboard.press("ArrowDown")
        self.expect(page.evaluate("document.activeElement.closest('tr').id") != page.locator("tr[id]").first.get_attribute("id"),
                    "the arrow keys move through both files")
        page.fill("#search", "BAR")
        page.keyboard.press("Enter")
        self.expect("BAR" in page.locator("tr.chosen").inner_text(), "the search finds rows")
        before = page.locator(".chunk:visible").count()
        page.locator("input.filter").first.check()
        after = page.locator(".chunk:visible").count()
        self.expect(0 < after < before, f"the filter hides lines that are the same ({before} lines, {after} differ)")
        self.expect(page.locator("tr.only-first, tr.only-second").count() > 0, "instructions without a partner are marked")
        self.expect(messages == [], f"no messages in the console, no requests {messages[:3]}")
        page, _, _ = self.open(path, fragment="#" + second)
        self.expect(page.locator("tr.chosen").locator("a#" + second).count() == 1, "a link to an instruction of the second file selects its row")

    def accessibility(self, path):
        if not self.axe:
            print("skipped: accessibility, --axe is not given")
            return
        for scheme in ["light", "dark"]:
            page, _, _ = self.open(path, scheme, "#f0-i0040")
            if page.locator("#f0-timeline").count():
                page.locator("#f0-timeline").scroll_into_view_if_needed()
            page.evaluate(pathlib.Path(self.axe).read_text())
            found = page.evaluate("() => axe.run().then((result) => result.violations)")
            for violation in found:
                print("       ", violation["id"], violation["help"], len(violation["nodes"]), violation["nodes"][0]["html"][:120])
            self.expect(not found, f"axe finds nothing ({scheme})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oriole", default=str(ROOT / "target/debug/oriole"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--axe", help="axe.min.js of the npm package axe-core")
    parser.add_argument("--screenshot", help="where to write a picture of the page")
    parser.add_argument("--comparison-screenshot", help="where to write a picture of the page that compares two files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = pathlib.Path(folder)
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        checks = Checks(browser, arguments.axe)
        small = folder / "block_sum.html"
        write_page(arguments.oriole, "examples/block_sum.ptx", small)
        checks.behaviour(small)
        checks.accessibility(small)
        old, both = folder / "old.cubin", folder / "both.html"
        (folder / "block_sum.ptx").write_text((ROOT / "examples/block_sum.ptx").read_text())
        oriole = str(pathlib.Path(arguments.oriole).absolute())
        compile_old = [oriole, "compile", "block_sum.ptx", "-o", old.name, "--arch", "sm_90a", "-O1", "--lineinfo"]
        compare = [oriole, "explain", "block_sum.ptx", "--arch", "sm_90a", "--against", old.name, "--html", both.name]
        for command in [compile_old, compare]:
            subprocess.run(command, check=True, cwd=folder)
        checks.comparison(both)
        checks.accessibility(both)
        if arguments.screenshot:
            page, _, _ = checks.open(small, fragment="#f0-i00e0")
            page.set_viewport_size({"width": 1200, "height": 900})
            page.evaluate("document.querySelector('.timeline').style.maxHeight = '9rem'")
            page.evaluate("document.querySelector('.curve').scrollIntoView(); window.scrollBy(0, -70)")
            page.wait_for_timeout(300)
            page.screenshot(path=arguments.screenshot)
        if arguments.comparison_screenshot:
            page, _, _ = checks.open(both, fragment="#f0-i00e0")
            page.set_viewport_size({"width": 1200, "height": 900})
            page.wait_for_timeout(300)
            page.screenshot(path=arguments.comparison_screenshot)
        for size, limit in SIZES:
            source, path = folder / f"long{size}.ptx", folder / f"long{size}.html"
            source.write_text(long_kernel(size))
            write_page(arguments.oriole, source, path, "-O1")
            # The best of three, since other programs may use the processor.
            page, messages, seconds = min((checks.open(path) for _ in range(3)), key=lambda opened: opened[2])
            rows = page.locator("tr[id]").count()
            checks.expect(rows >= size and not messages, f"{rows} instructions, {path.stat().st_size >> 10} KiB, no messages")
            checks.expect(seconds < limit, f"interactive after {seconds:.2f} s, {limit} s are allowed")
            start = time.monotonic()
            page.fill("#search", "LDG")
            page.keyboard.press("Enter")
            page.wait_for_function("document.getElementById('found').textContent.includes(' of ')")
            print(f"        the first search takes {time.monotonic() - start:.2f} s")
        browser.close()
        print(f"{checks.failures} failed")
        return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
