"""Programs in which models come and go, and in which start() and stop() are interrupted."""

import torch
from torch import nn


def test_every_new_model_of_a_process_is_recorded(recording):
    debugger = recording.debugger(level="L0")
    names = []
    for step in range(6):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        debugger.start(model)
        model(torch.ones(1, 4))
        debugger.stop()
        debugger.step()
        names.append(recording.dump(step).names)
        del model  # its id, and those of its parts, are free for the next one
    assert names == [["Module.0.Linear.forward.0", "Module.1.ReLU.forward.0"]] * 6
