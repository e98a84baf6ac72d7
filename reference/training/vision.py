"""Import torchvision's models, even if its compiled operators do not load. Only this file imports torchvision.

A CPU build of torch cannot load the operators of torchvision's CUDA wheel. Then ``import torchvision`` fails, although
the models need none of these operators (docs/errata.md, 0.1 to 0.4).
"""

from __future__ import annotations

import torch

# Kept alive forever, because the import below looks up the two schemas (0.3).
_schemas: torch.library.Library | None = None

try:
    import torchvision
except RuntimeError as error:
    if "operator torchvision::" not in str(error) or "does not exist" not in str(error):
        raise
    # Defined only after the failure, because defining them first aborts a process whose operators do load (0.4).
    _schemas = torch.library.Library("torchvision", "FRAGMENT")
    for _operator in ("nms", "qnms"):
        _schemas.define(f"{_operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

resnet50 = torchvision.models.resnet50
Bottleneck = torchvision.models.resnet.Bottleneck

__all__ = ["Bottleneck", "resnet50"]
