"""Two models of transformers, tiny and random: every API of a training step is checked."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("transformers")

RECORD = """
    import sys
    import torch
    import transformers
    from vernier import PrecisionDebugger

    torch.manual_seed(0)
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    if sys.argv[2] == "llama":
        config = transformers.LlamaConfig(**sizes, num_key_value_heads=2, max_position_embeddings=32)
        model = transformers.LlamaForCausalLM(config)
    else:
        config = transformers.BertConfig(**sizes, max_position_embeddings=32)
        model = transformers.BertForMaskedLM(config)
    ids = torch.randint(0, 64, (2, 12))
    debugger = PrecisionDebugger(dump_path=sys.argv[1], level="L1", task="tensor")
    debugger.start(model)
    model(input_ids=ids, labels=ids).loss.backward()
    debugger.stop()
    debugger.step()
"""


@pytest.mark.parametrize("model", ["llama", "bert"])
def test_every_error_of_a_step_is_explained(model, command, tmp_path):
    words = [sys.executable, "-c", textwrap.dedent(RECORD), str(tmp_path / "dump"), model]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    (dump,) = (tmp_path / "dump").rglob("dump.json")
    run = command("acc_check", "-api_info", dump, "-d", "cpu")
    verdicts = {name: pair for name, pair in run.result.items() if not set(pair) <= {"pass", " "}}
    assert all(run.messages[name].strip() for name in verdicts)
    # The gradient of the keys' bias is zero but for rounding, which the cosine cannot compare.
    errors = [row for row in run.details if row["Status"] == "error"]
    assert all("nothing but rounding" in row["Message"] and ".linear." in row["API name"] for row in errors), run.out
    assert len(run.result) > 40
    assert sum(pair[0] == "pass" for pair in run.result.values()) > 0.9 * len(run.result), verdicts
