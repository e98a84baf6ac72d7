"""`SGD(fused=True)` on the CPU does not update bfloat16 and float16, but for a remainder (upstream issue 191763)."""

import sys

import torch

counts = []
for dtype in (torch.bfloat16, torch.float16):
    parameter = torch.nn.Parameter(torch.ones(70, dtype=dtype))
    parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD([parameter], lr=0.5, fused=True).step()
    counts.append(int((parameter == 0.5).sum()))
print(f"{counts} of 70 numbers are updated, wanted all")
sys.exit(0 if counts == [70, 70] else 10)
