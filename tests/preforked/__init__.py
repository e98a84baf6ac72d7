"""Processes that are forks of one that has imported what takes long, in place of new ones: the pytest of a trial, and
its forkserver."""

# One thread per operator when torch is loaded, as `preload_first` sets it for every forkserver.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
