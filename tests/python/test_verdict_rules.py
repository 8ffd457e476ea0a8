"""rules/verdict.json against the page that explains it."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_threshold_is_explained_in_one_sentence_and_documented():
    rules = json.loads((ROOT / "rules" / "verdict.json").read_text())
    page = (ROOT / "docs" / "verdict.md").read_text()
    assert set(rules["messages"]) == {"why_" + key for key in rules["thresholds"]}
    for key, value in rules["thresholds"].items():
        sentence = rules["messages"]["why_" + key]
        assert sentence.endswith(".")
        assert f"| `{key}` | {value:g} | {sentence} |" in page
