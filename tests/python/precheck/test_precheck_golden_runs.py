"""Whole runs of acc_check and multi_acc_check against the reference's."""

import json
import shutil

import pytest
from vernier import precheck

from . import golden

REAL, RANDOM = golden.CASES / "acc_check_real", golden.CASES / "acc_check_random"
# Their last bits depend on torch and CPU.
ROUNDS = {"linear", "matmul", "bmm", "softmax", "layer_norm", "gelu", "exp", "sum", "cumsum", "cross_entropy"} | {
    "mse_loss",
    "embedding",
    "conv2d",
}


def api_of(row_name):
    return ".".join(row_name.split(".")[1:-4])


@pytest.mark.parametrize("case", [REAL, RANDOM], ids=["real", "random"])
def test_rows_are_the_references(case, command):
    meta, wanted = golden.load(case.name, "meta.json"), golden.read_csv(case / "expected_details.csv")
    words = ["-d", "cpu", "--policy", meta["policy"], "--thresholds", meta["profile"]]
    run = command("acc_check", "-api_info", case / "dump.json", *words)
    assert run.code == 1, run.out
    assert [row["API name"] for row in run.details] == [row["API name"] for row in wanted]
    for want, got in zip(wanted, run.details):
        random_shape = meta["mode"] == "random" and ".masked_select." in want["API name"]
        for column in ("Bench Dtype", "DEVICE Dtype") + (() if random_shape else ("Shape",)):
            assert got[column] == want[column], want["API name"]
        assert (got["Status"] == "SKIP") == (want["Status"] == "SKIP"), want["API name"]
        assert got["Status"] != "SKIP" or got["Message"].strip()
        if meta["mode"] == "random" or api_of(want["API name"]) in ROUNDS:
            continue
        for column in [*list(golden.DETAILS.values())[1:], "Status"]:
            assert golden.same(want[column], got[column], 2e-5, 1e-9), (want["API name"], column)
    expected = {row["API name"]: row["Forward Test Success"] for row in golden.read_csv(case / "expected_result.csv")}
    assert list(run.result) == list(expected)


def test_stored_outputs_are_judged_as_the_reference_did():
    meta = golden.load("acc_check_real", "meta.json")
    pack, rows = golden.Pack(REAL / "outputs.npy"), golden.read_csv(REAL / "expected_details.csv")
    rows = {row["API name"]: row for row in rows}
    for name, pair in meta["outputs"].items():
        sides = pack.tensor(pair["bench"]), pack.tensor(pair["device"])
        got = precheck.judge(api_of(name), *sides, policy=meta["policy"], thresholds=meta["profile"])
        for column in [*list(golden.DETAILS.values())[1:], "Status"]:
            assert golden.same(rows[name][column], got[column], 2e-5, 1e-9), (name, column)


@pytest.mark.parametrize("tag", ["white", "black", "both_disjoint", "both_overlap"])
def test_lists_let_through_what_they_let_through(tag, command):
    folder = golden.CASES / "acc_check_lists"
    item = golden.load("acc_check_lists", "expected.json")[tag]
    run = command("acc_check", "-api_info", folder / "dump.json", "-d", "cpu", "-config", folder / item["config"])
    excluded = [name for name in run.result if name not in item["ran"]]
    assert excluded
    for name in excluded:
        assert run.result[name] == ("SKIP", "SKIP")
        assert (
            "list" in run.messages[name] or name.startswith(("VF.", "Distributed.")) or "cannot" in run.messages[name]
        )
    assert any(run.result[name][0] in ("pass", "warning", "error") for name in item["ran"])


def test_resuming_adds_what_is_missing_and_saves_what_failed(command, tmp_path):
    data = golden.load("acc_check_resume", "expected.json")
    done, stamp = data["resume"]["already_in_result_csv"], "20240102030405"
    work, errors = tmp_path / "work", tmp_path / "errors"
    work.mkdir(), errors.mkdir()
    result = work / f"accuracy_checking_result_{stamp}.csv"
    result.write_text("API name,Forward Test Success,Backward Test Success,Message\r\n", "utf-8-sig", newline="")
    with open(result, "a", newline="") as file:
        file.writelines(f"{name},pass,pass, \r\n" for name in done)
    header = (REAL / "expected_details.csv").read_bytes().split(b"\n", 1)[0] + b"\n"
    details = work / f"accuracy_checking_details_{stamp}.csv"
    details.write_bytes(header)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"acc_check": {"error_data_path": str(errors)}}))
    words = ["-api_info", REAL / "dump.json", "-d", "cpu", "-csv_path", result, "-config", config, "-save_error_data"]
    run = command("acc_check", *words)
    assert run.code == 1, run.out
    assert not run.folder.exists()
    names = [row["API name"] for row in golden.read_csv(result)]
    assert names == data["resume"]["names_after"]
    fresh = [row["API name"] for row in golden.read_csv(REAL / "expected_details.csv")]
    fresh = [name for name in fresh if name.rsplit(".", 3)[0] not in done]
    assert [row["API name"] for row in golden.read_csv(details)] == fresh
    saved = {path.name for path in (errors / f"ut_error_data{stamp}").iterdir()}
    recorded = {path.rpartition("/")[2] for path in data["error_data"]["files"]}
    failed = {"Torch.matmul.0", "Torch.sum.0", "Torch.sqrt.0"}
    assert saved == {name for name in recorded if name.rsplit(".", 4)[0].startswith(tuple(failed))}


def test_filter_and_any_number_of_parts_give_each_api_once(command, tmp_path):
    dump = shutil.copy(golden.CASES / "filter_and_split" / "dump.json", tmp_path)
    every = [name[: -len(".forward")] for name in json.loads(open(dump).read())["data"] if name.endswith(".forward")]
    single = command("acc_check", "-api_info", dump, "-d", "cpu")
    assert list(single.result) == every
    for parts in (1, 3):
        run = command("multi_acc_check", "-api_info", dump, "-d", "cpu", "-n", parts)
        assert run.rows == single.rows
        assert run.details == single.details  # the same numbers, whoever checks a call
    kept = list(command("acc_check", "-api_info", dump, "-d", "cpu", "-f").result)
    assert len(kept) < len(every)
    assert set(kept) < set(every)
    assert [path.name for path in tmp_path.glob("*.json")] == ["dump.json"]
