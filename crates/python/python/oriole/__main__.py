"""``oriole`` and ``python -m oriole``: run the command line tool of the package."""

from __future__ import annotations

import os
import subprocess
import sys

from ._programs import oriole_path


def main() -> int:
    try:
        program = oriole_path()
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if sys.platform == "win32":
        return subprocess.run([program, *sys.argv[1:]], check=False).returncode
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
