"""Build the C++ kernel that DeepSpeed's launcher wants on a CPU, once, at installation (about 25 s)."""

import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch

if torch.cuda.is_available():
    sys.exit(0)

from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder

ShareMemCommBuilder().load(verbose=False)
print("DeepSpeed's CPU communication kernel is built")
