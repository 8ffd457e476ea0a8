"""What a spreadsheet program makes of our .xlsx reports."""

import numpy as np
import openpyxl
import pytest
import recordings
import vernier


def record(folder, output):
    recordings.write(folder, {"Torch.exp.0.forward": recordings.call(recordings.tensor(output))})


def sheets_of(path):
    book = openpyxl.load_workbook(path)
    assert book.active.title == "Verdict"
    return book["Verdict"], book["Sheet1"]


@pytest.mark.parametrize("family", ["native", "msprobe"])
def test_a_report_opens_with_its_verdict_and_can_be_filtered(tmp_path, family):
    for side, value in (("a", 1.0), ("b", 2.0)):
        if family == "native":
            np.save(tmp_path / f"{side}.npy", np.full(3, value, np.float32))
        else:
            record(tmp_path / side, value)
    ending = ".npy" if family == "native" else ""
    report = tmp_path / "report.xlsx"
    vernier.compare(tmp_path / f"a{ending}", tmp_path / f"b{ending}", output=report)
    verdict, rows = sheets_of(report)
    assert verdict["A1"].value.startswith("DIVERGED")
    text = "\n".join(str(row[0]) for row in verdict.values)
    assert "1 failed" in text or "1 failing" in text
    assert rows.freeze_panes == "A2"
    assert rows.auto_filter.ref.startswith("A1:")
    assert rows.column_dimensions["A"].width >= 40
    assert rows[1][0].font.bold
    failing = [row for row in rows.iter_rows(min_row=2) if row[0].fill.fgColor.rgb.endswith("FFC7CE")]
    assert len(failing) == 1


def test_files_of_a_result_folder_look_as_msprobes_do(tmp_path):
    record(tmp_path / "a", 1.0)
    record(tmp_path / "b", 2.0)
    vernier.compare(tmp_path / "a", tmp_path / "b", output=tmp_path / "out", format="xlsx")
    (path,) = (tmp_path / "out").glob("*.xlsx")
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["Sheet1"]
    assert book["Sheet1"].freeze_panes is None
