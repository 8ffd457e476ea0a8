"""Tests on the device of fake_device. Only test_fake_device.py runs them, each file in a process of its own."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.sides")
