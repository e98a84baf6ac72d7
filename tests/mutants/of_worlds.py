"""Bugs in `world`: how roles start, are watched, and end."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SUPERVISOR, _ROLE = "reference/supervisor.py", "reference/role.py"
_WORLD = "tests/test_world.py"
_ENDS = f"{_WORLD}::test_ends_are_told_apart_and_survivors_hear_of_them"
_KILLED = f"{_ENDS}[kill_oneself-outcome5-a was killed by SIGKILL]"

MUTANTS = (
    Mutant(
        "not-killed-at-the-deadline",
        _SUPERVISOR,
        "            self.kill()\n            return",
        "            return",
        (f"{_WORLD}::test_overdue_and_killed_where_it_does_not_even_say_where_it_is",),
        "a role that does not answer at its deadline is left alone",
        hangs=True,
    ),
    Mutant(
        "never-due",
        _SUPERVISOR,
        "        times = [self.due, *(due for _, due in self.calls.values())]",
        "        times = [self.due]",
        (f"{_WORLD}::TestCalls::test_a_call_that_misses_its_deadline_ends_its_role",),
        "a call's own deadline is forgotten",
    ),
    Mutant(
        "leaves-processes",
        _SUPERVISOR,
        "            os.killpg(self.pid, signal.SIGKILL)  # what the role itself had started",
        "            pass",
        (f"{_WORLD}::TestNothingIsLeft::test_of_what_a_role_itself_had_started",),
        "what a role has started outlives it",
    ),
    Mutant(
        "deaf-to-deaths",
        _SUPERVISOR,
        '        if lost and all(seat.phase in ("starting", "finished") for seat in rest):',
        '        if lost and all(seat.phase == "starting" for seat in rest):',
        (f"{_WORLD}::test_survivor_was_in_shutdown_when_it_heard",),
        "who waits in the shutdown is not told of a death",
    ),
    Mutant(
        "no-stacks",
        _SUPERVISOR,
        "            self.outcome = Overdue(self._read_stacks())",
        '            self.outcome = Overdue("")',
        (f"{_WORLD}::test_overdue_with_the_stacks_of_all_threads",),
        "an overdue role does not say where it was",
    ),
    Mutant(
        "one-stack-only",
        _ROLE,
        "all_threads=True, chain=True",
        "all_threads=False, chain=True",
        (f"{_WORLD}::test_overdue_with_the_stacks_of_all_threads",),
        "an overdue role says where its main thread was, not where the others were",
    ),
    Mutant(
        "stopped-is-not-continued",
        _SUPERVISOR,
        "            os.kill(self.pid, signal.SIGCONT)  # a stopped process takes no signal but this and SIGKILL",
        "            pass",
        (f"{_WORLD}::test_overdue_while_stopped",),
        "a stopped role cannot write its stacks",
    ),
    Mutant(
        "lost-without-a-name",
        _SUPERVISOR,
        '            text = "; ".join(f"{seat.name} {seat.outcome}" for seat in lost)',
        '            text = "; ".join(f"{seat.outcome}" for seat in lost)',
        (_KILLED,),
        "survivors hear that a peer is lost, not which",
    ),
    Mutant(
        "status-0-has-returned",
        _SUPERVISOR,
        "        elif self._report is None or (code and isinstance(self._report, Returned)):",
        "        elif self._report is None and code:",
        (f"{_ENDS}[leave_0-outcome4-a exited with status 0]",),
        "a role that leaves with status 0 in the middle has no outcome of its own",
    ),
    Mutant(
        "killed-is-exited",
        _SUPERVISOR,
        "            self.outcome = Killed(-code)",
        "            self.outcome = Exited(-code)",
        (_KILLED,),
        "a signal is taken for a status",
    ),
    Mutant(
        "victims-are-culprits",
        _SUPERVISOR,
        '        culprits = [seat for seat in late if seat.phase not in ("finished", "told")]',
        "        culprits = list(late)",
        (f"{_WORLD}::test_overdue_with_the_stacks_of_all_threads",),
        "who only waits for an overdue role is overdue too",
    ),
    Mutant(
        "outlives-its-launcher",
        "reference/link.py",
        "prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)",
        "prctl(_PR_SET_PDEATHSIG, 0)",
        (f"{_WORLD}::TestNothingIsLeft::test_of_a_stopped_role_when_the_launching_process_is_killed",),
        "a stopped role goes on when its launcher is gone",
    ),
    Mutant(
        "one-seed-for-all",
        _ROLE,
        "    seed = seed_for(0, name)",
        "    seed = seed_for(0, type(name).__name__)",
        (f"{_WORLD}::TestProcesses::test_random_states_differ_by_role_and_repeat_by_name",),
        "all roles draw the same random numbers",
    ),
    Mutant(
        "seed-without-name",
        "reference/seeding.py",
        '    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()',
        '    digest = hashlib.sha256(f"{seed}/{len(name)}".encode()).digest()',
        ("tests/test_seeding.py::test_generators_draw_the_same_for_the_same_name_only",),
        "names of one length share their seed",
    ),
    Mutant(
        "folder-left",
        "reference/world.py",
        "    if not keep:\n        shutil.rmtree",
        "    if not keep and not place.exists():\n        shutil.rmtree",
        (f"{_WORLD}::TestNothingIsLeft::test_after_leaving_without_waiting",),
        "a world's temporary folder stays",
    ),
    Mutant(
        "ranks-by-name",
        "reference/world.py",
        "    names = list(roles) if isinstance(roles, Mapping) else roles\n",
        "    names = sorted(roles)\n",
        (f"{_WORLD}::TestCalls::test_ranks_follow_the_order_of_the_names",),
        "ranks follow the alphabet, not the order that was given",
    ),
    Mutant(
        "limit-not-restored",
        "reference/patience.py",
        "        rpc._set_rpc_timeout(before)  # type: ignore[attr-defined]",
        "        rpc._set_rpc_timeout(seconds)  # type: ignore[attr-defined]",
        ("tests/test_patience.py::test_the_limit_holds_inside_the_block",),
        "one run's limit stays for the next",
    ),
    Mutant(
        "late-loss-counts",
        "reference/muster.py",
        "            first = bool(self.missing) and self.lost is None",
        "            first = self.lost is None",
        ("tests/test_muster.py::test_a_loss_after_the_last_has_finished_is_none",),
        "an end after everybody has finished is taken for a loss",
    ),
)
