"""The list of all mutants."""

from __future__ import annotations

from tests.mutants import (
    of_bound,
    of_calls,
    of_checks,
    of_commands,
    of_conform,
    of_conform_reports,
    of_corruption,
    of_engine_sites,
    of_exact,
    of_faults,
    of_further_faults,
    of_hints,
    of_leaks,
    of_plugin,
    of_shared_agents,
    of_shared_servers,
    of_sweeps,
    of_traces,
    of_training,
    of_tutorials,
    of_verdicts,
    of_worlds,
)
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *of_tutorials.MUTANTS,
    *of_calls.MUTANTS,
    *of_worlds.MUTANTS,
    *of_traces.MUTANTS,
    *of_training.MUTANTS,
    *of_faults.MUTANTS,
    *of_further_faults.MUTANTS,
    *of_checks.MUTANTS,
    *of_hints.MUTANTS,
    *of_corruption.MUTANTS,
    *of_engine_sites.MUTANTS,
    *of_plugin.MUTANTS,
    *of_leaks.MUTANTS,
    *of_commands.MUTANTS,
    *of_sweeps.MUTANTS,
    *of_conform.MUTANTS,
    *of_conform_reports.MUTANTS,
    *of_verdicts.MUTANTS,
    *of_bound.MUTANTS,
    *of_exact.MUTANTS,
    *of_shared_servers.MUTANTS,
    *of_shared_agents.MUTANTS,
)
