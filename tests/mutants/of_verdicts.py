"""Bugs in how a run of somebody else's program is judged."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ORIGIN, _FATES, _FAILURES, _CAUSES = (f"faults/{name}.py" for name in ("origin", "fates", "failures", "causes"))
_OF_ORIGIN, _OF_FATES, _OF_CHECKS = (f"tests/test_{name}.py" for name in ("origin", "fates", "checks"))
_OF_CAUSES = "tests/test_causes.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "every-loss-after-a-delay",
        _ORIGIN,
        "        return any(is_timeout(p) or (",
        "        return any(is_timeout(p) or is_loss(p) or (",
        (f"{_OF_ORIGIN}::test_after_a_fault_that_loses_nothing_only_a_time_out_is_excused",),
        "a lost connection is taken for what a slow call does",
    ),
    Mutant(
        "any-text-is-a-time-out",
        _ORIGIN,
        "or (_speaks(piece) and _TIMED_OUT",
        "or (bool(piece) and _TIMED_OUT",
        (f"{_OF_ORIGIN}::test_after_a_fault_that_loses_nothing_only_a_time_out_is_excused",),
        "a KeyError whose key is called timeout is taken for a time-out",
    ),
    Mutant(
        "any-error-after-a-duplicate",
        _ORIGIN,
        "        if _call(event, caller) in hurt:",
        "        if hurt:",
        (f"{_OF_ORIGIN}::TestDuplicate",),
        "whatever any call fails by is taken for the refusal of the second one",
    ),
    Mutant(
        "a-duplicate-loses-calls",
        _ORIGIN,
        '    if fault.kind == "Duplicate":',
        '    if fault.kind == "Twice":',
        (f"{_OF_ORIGIN}::TestDuplicate",),
        "RPC's own errors are excused by a call that came twice",
    ),
    Mutant(
        "any-runtime-error",
        _ORIGIN,
        "    return _speaks(piece) and _LOST.search(piece.text) is not None",
        "    return _speaks(piece)",
        (f"{_OF_ORIGIN}::test_after_a_loss_what_derives_from_it_is_excused",),
        "a program that dies of tensors that do not fit has ended cleanly",
    ),
    Mutant(
        "any-failed-call",
        _ORIGIN,
        "        if any(_is_own(each, fault) for each in known) and any(",
        "        if any(",
        (f"{_OF_ORIGIN}::test_what_quotes_a_call_that_has_failed_so_is_excused",),
        "a call that fails by a mistake of its callee excuses who quotes it",
    ),
    Mutant(
        "errors-before-the-fault",
        _ORIGIN,
        "if event is not None and event.time <= time}",
        "if event is not None}",
        (f"{_OF_ORIGIN}::test_an_error_before_anything_has_fired_is_not_excused",),
        "a fault excuses an error that was there before it",
    ),
    Mutant(
        "silent-messages-are-innocent",
        _ORIGIN,
        "    return None if any(_excuses(run, number, pieces) for number in silent) else False",
        "    return False",
        (f"{_OF_ORIGIN}::TestMessages::test_without_evidence_nobody_can_tell",),
        "an error that a message fault may have made is wrong, though nobody can know",
    ),
    Mutant(
        "mistakes-derive",
        _CAUSES,
        "        if link == _MET and not _is_raised(section):",
        '        if link == "" and not _is_raised(section):',
        (f"{_OF_CAUSES}::test_an_error_derives_from_what_is_stated_or_answered_not_from_what_a_mistake_meets",),
        "what goes wrong while an error is handled is excused by that error",
    ),
    Mutant(
        "vanished-roles-returned",
        _FATES,
        "    if left is None and life.last:",
        "    if left is None and life.last and not life.of('up'):",
        (f"{_OF_FATES}::test_a_role_beside_another_that_shut_rpc_down_for_all",),
        "a role that is killed, and whose status nobody reads, has returned",
    ),
    Mutant(
        "nobody-misses-a-shutdown",
        _FATES,
        '    return any(event is not None and event.details.get("graceful", True) for event in others)',
        "    return False and bool(others)",
        (f"{_OF_FATES}::test_a_role_beside_another_that_shut_rpc_down_for_all",),
        "a role that leaves the others alone in their shutdown has returned",
    ),
    Mutant(
        "everybody-has-to-shut-down",
        _FATES,
        "for other in every if life.overlaps(other)]",
        "for other in every]",
        (f"{_OF_FATES}::test_a_role_of_two_worlds_needs_both",),
        "a world in which nobody shuts down is judged by another that comes later",
    ),
    Mutant(
        "the-first-life-is-forgotten",
        _FATES,
        "        if known is None or _KINDS.index(end.kind) <= _KINDS.index(known.kind):",
        "        if known is None or end.kind:",
        (f"{_OF_FATES}::test_a_role_of_two_worlds_needs_both",),
        "a role that is lost in the first of two worlds has returned",
    ),
    Mutant(
        "the-launchers-victims-are-defects",
        _FATES,
        "    if life.pid not in asked:",
        "    if life.pid:",
        (f"{_OF_FATES}::test_where_nobody_shuts_down_for_all_an_end_in_order_is_enough",),
        "a server that its own program ends is taken for one that has crashed",
    ),
    Mutant(
        "any-status-is-clean",
        _FAILURES,
        '    return None if any(run.plan.faults[number].kind != "Duplicate" for number in fired) else False',
        "    return bool(fired)",
        (f"{_OF_CHECKS}::TestErrors::test_a_status",),
        "a command that ends with status 1 has ended cleanly, whatever it has found",
    ),
    Mutant(
        "messages-never-fire",
        "faults/proof.py",
        "    found.update(of_messages(run.plan, run.timeline))",
        "    found.update({})",
        (f"{_OF_ORIGIN}::TestMessages::test_the_call_that_shows_it_is_its_firing",),
        "a program that ends cleanly after a lost message is wrong",
    ),
    Mutant(
        "default-timeout-forgotten",
        "faults/bounds.py",
        '    for event in timeline.of("up", "invoke"):',
        '    for event in timeline.of("invoke"):',
        ("tests/test_bounds.py::test_the_longest_timeout_that_a_hurt_call_may_take",),
        "a program with torch's default timeouts is hung when a call is lost",
    ),
    Mutant(
        "calls-counted-by-callee",
        "faults/calls.py",
        "        numbers = self._count(sites)\n",
        "        count = self._count(tuple(f'{to.name} {site}' for site in sites))\n"
        "        numbers = {site: count[f'{to.name} {site}'] for site in sites}\n",
        ("tests/test_calls.py::test_a_caller_counts_its_calls_of_a_site_whomever_they_go_to",),
        "`nth` counts the calls of each callee instead of the caller's",
    ),
)
