#!/usr/bin/env python3
"""Every column, threshold and message of the msprobe profile stands in docs/compare_msprobe.md, with its value."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    page = (ROOT / "docs" / "compare_msprobe.md").read_text(encoding="utf-8")
    missing = []
    columns = (ROOT / "src/profiles/msprobe/columns.cc").read_text()
    for heading in re.findall(r'false, \{"([^"]+)"|true, \{"([^"]+)"', columns):
        if f"| `{heading[0] or heading[1]}` |" not in page:
            missing.append(heading)
    for name in ("classic", "current"):
        rules = json.loads((ROOT / "rules" / f"msprobe_{name}.json").read_text())
        for key, value in rules["thresholds"].items():
            if f"| `{key}` | {value:g} |" not in page:
                missing.append(key)
        for key, text in rules["messages"].items():
            shown = text.strip().replace("\n", " ⏎ ")
            if f"| `{key}` | {shown} |" not in page:
                missing.append(key)
    print("not documented:", missing if missing else "nothing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
