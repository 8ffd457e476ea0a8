"""api_precision_compare against the reference's files."""

import csv

import pytest
import vernier

from . import golden

COMPARE = {
    "API Name": "API name",
    "小值域错误比值": "Error ratio in small value range",
    "小值域判定结果": "Error determination result in small value range",
    "均方根误差比值": "RMSE ratio",
    "均方根误差判定结果": "RMSE determination result",
    "相对误差最大值比值": "Maximum relative error ratio",
    "相对误差最大值判定结果": "Maximum relative error determination result",
    "相对误差平均值比值": "Mean relative error ratio",
    "相对误差平均值判定结果": "Mean relative error determination result",
    "误差均衡性比值": "Error balance ratio",
    "误差均衡性判定结果": "Error balance determination result",
    "inf/nan错误率": "INF/NaN error rate",
    "inf/nan判定结果": "INF/NaN determination result",
    "相对误差错误率": "Relative error rate",
    "相对误差判定结果": "Relative error determination result",
    "绝对误差错误率": "Absolute error rate",
    "绝对误差判定结果": "Absolute error determination result",
    "二进制一致错误率": "Binary consistency error rate",
    "二进制一致错误率判定结果": "Binary consistency error rate determination result",
    "ULP误差平均值": "Mean ULP error",
    "ULP误差大于阈值占比": "Proportion of ULP errors greater than the threshold",
    "ULP误差大于阈值占比比值": "Ratio of ULP error greater than the threshold",
    "ULP误差判定结果": "ULP error determination result",
    "双千指标": "Dual-1000 metric",
    "双千指标判定结果": "Dual-1000 metric determination result",
    "比对结果": "Comparison result",
    "比对算法": "Comparison algorithm",
    "Message": "Message",
}
ALGORITHMS = {
    "标杆比对法": "benchmark comparison",
    "ULP误差比对法": "ULP error comparison",
    "二进制一致法": "binary consistency",
    "绝对阈值法": "absolute threshold",
    "双千指标法": "dual-1000 metric",
    "累积误差比对法": "accumulative error",
}
CASES = ["levels", "floor", "special", "structure", "discrete", "lists"]


def read(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    return [dict(zip((COMPARE.get(name, name) for name in header), row)) for row in rows]


def compare(npu, gpu, folder, *words):
    code = vernier.main(["api_precision_compare", "-npu", str(npu), "-gpu", str(gpu), "-o", str(folder), "-q", *words])
    files = [next(folder.glob(f"api_precision_compare_{part}_*.csv"), None) for part in ("details", "result")]
    return code, *(read(path) if path else None for path in files)


def is_ours(row, npu, verdict):
    """Rows in which we differ from the reference on purpose."""
    api = ".".join(row["API name"].split(".")[1:-4])
    return api == "test_api" or "0" in npu["Shape"].strip("()").replace(" ", "").split(",") or not verdict.strip()


@pytest.mark.parametrize("policy", ["manual", "benchmark_first", "per_api"])
@pytest.mark.parametrize("case", CASES)
def test_verdicts_and_ratios_are_the_references(case, policy, tmp_path):
    folder = golden.CASES / f"precision_compare_{case}"
    overrides = golden.load(folder.name, "meta.json").get("manual_overrides", {})
    source = policy if policy != "manual" else "per_api" if overrides else "benchmark_first"
    npu = folder / "npu_details.csv"
    _, details, result = compare(npu, folder / "gpu_details.csv", tmp_path, "--policy", policy)
    wanted, given = read(folder / f"{source}.details.csv"), {row["API name"]: row for row in golden.read_csv(npu)}
    assert [row["API name"] for row in details] == [row["API name"] for row in wanted]
    assert len({row["API name"] for row in result}) == len(result)
    compared = 0
    for want, got in zip(wanted, details):
        name = want["API name"]
        verdict = want["ULP error determination result"] if "ULP" in want["Comparison algorithm"] else "x"
        if is_ours(want, given[name], verdict) or (name in overrides and policy != "benchmark_first"):
            continue
        compared += 1
        for column in list(COMPARE.values())[1:-1]:
            cell = ALGORITHMS.get(want[column], want[column])
            assert golden.same(cell, got[column], 1e-12), (name, column)
    assert compared > len(wanted) / 2
    for row in details:
        assert row["Comparison result"] not in ("SKIP", "error") or row["Message"].strip()


def test_dual_1000_and_ulp_follow_the_manual(tmp_path):
    folder = golden.CASES / "precision_compare_lists"
    overrides = golden.load(folder.name, "meta.json")["manual_overrides"]
    _, details, _ = compare(folder / "npu_details.csv", folder / "gpu_details.csv", tmp_path)
    found = {row["API name"]: row["Comparison result"] for row in details}
    assert {name: found[name] for name in overrides} == overrides


def test_a_doubled_row_is_skipped_and_the_rest_goes_on(tmp_path):
    folder = golden.CASES / "precision_compare_failures"
    _, details, _ = compare(folder / "npu_details.csv", folder / "gpu_duplicate.csv", tmp_path)
    names = [row["API name"] for row in golden.read_csv(folder / "gpu_duplicate.csv")]
    verdicts = {row["API name"]: row["Comparison result"] for row in details}
    assert {verdicts[name] for name in names if names.count(name) > 1} == {"SKIP"}
    assert len(details) == len(golden.read_csv(folder / "npu_details.csv"))


def test_a_missing_column_is_named_before_anything_is_written(tmp_path, capfd):
    folder = golden.CASES / "precision_compare_failures"
    code, details, _ = compare(folder / "npu_details.csv", folder / "gpu_missing_column.csv", tmp_path / "out")
    assert code == 2
    assert details is None
    assert "column missing" in capfd.readouterr().err


def test_english_and_chinese_headers_are_written_and_read(tmp_path):
    folder = golden.CASES / "precision_compare_floor"
    sides = folder / "npu_details.csv", folder / "gpu_details.csv"
    _, english, _ = compare(*sides, tmp_path / "en")
    _, chinese, _ = compare(*sides, tmp_path / "zh", "--header", "zh")
    for row in chinese:
        row["Comparison algorithm"] = ALGORITHMS.get(row["Comparison algorithm"], row["Comparison algorithm"])
    assert english == chinese


def test_exit_codes(tmp_path, capfd):
    folder = golden.CASES / "precision_compare_floor"
    npu, gpu = folder / "npu_details.csv", folder / "gpu_details.csv"
    assert compare(npu, gpu, tmp_path / "a")[0] == 1
    assert vernier.main(["api_precision_compare", "-npu", str(npu), "-gpu", str(gpu), "-o", str(tmp_path / "b")],
                        program="msprobe") == 0  # fmt: skip
    assert vernier.main(["api_precision_compare", "-npu", str(npu)]) == 2
    assert vernier.main(["api_precision_compare", "-npu", "x.txt", "-gpu", str(gpu)]) == 2
    assert "expected a .csv file" in capfd.readouterr().err
