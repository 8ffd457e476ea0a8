"""What depends on the version of torch. Its own comparison of versions needs packages that may be missing."""

import torch

IS_TORCH_2 = int(str(torch.__version__).partition(".")[0]) >= 2
