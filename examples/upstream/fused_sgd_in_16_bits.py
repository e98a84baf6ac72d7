"""`SGD(fused=True)` on the CPU does not update bfloat16 and float16, but for a remainder (upstream issue 191763)."""

import sys

import torch

parameter = torch.nn.Parameter(torch.ones(64, dtype=torch.bfloat16))
parameter.grad = torch.ones_like(parameter)
torch.optim.SGD([parameter], lr=0.5, fused=True).step()
updated = int((parameter == 0.5).sum())
print(f"{updated} of 64 numbers are updated, wanted all")
sys.exit(updated != 64)
