"""Be torchrun: ``python -m tests.support.torchrun``. Its imports take half as long without garbage collections."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()
    from torch.distributed.run import main

    gc.freeze()
    gc.enable()
    main()
