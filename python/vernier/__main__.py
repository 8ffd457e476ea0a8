"""``python -m vernier`` is the command ``vernier``."""

import sys

from ._native import main

sys.exit(main())
