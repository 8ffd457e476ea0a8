"""docs/record.md lists the settings as the parser has them. As a program, this rewrites the list."""

from pathlib import Path

from vernier.record.config import markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "record.md"
BEGIN, END = "<!-- settings -->\n", "<!-- end of settings -->"


def parts():
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    shown, _, tail = rest.partition(END)
    return head, shown, tail


def test_the_page_lists_every_setting():
    assert parts()[1].strip() == markdown().strip()


if __name__ == "__main__":
    head, _, tail = parts()
    PAGE.write_text(f"{head}{BEGIN}\n{markdown()}\n{END}{tail}", encoding="utf-8")
