"""A fixture that records the same on the device and on the CPU."""

import pytest


@pytest.fixture
def sides(recording):
    # Every collection of tests reads this file, and only those of this folder may load the device.
    from .sides import Sides

    return Sides(recording)
