"""Bugs in the traces of RRefs and autograd contexts: leaks that are missed, and what is in use called a leak."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEAKS, _HOLDERS, _HOLDINGS = (
    f"tests/{name}.py::test" for name in ("faults/test_leaks", "faults/test_holders", "judge/test_holdings")
)
_LOST = (f"{_HOLDINGS}_an_rref_is_lost_if_only_values_hold_it_to_which_nothing_leads",)
_UNSEEN = "tests/faults/test_unseen.py::test"
_SCRIPTS = "tests/faults/test_traced_scripts.py::test"
_JUDGE, _RREFS, _HOOKS = "faults/judge/holdings.py", "faults/tracing/rrefs.py", "faults/tracing/hooks.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "lost-though-in-use",
        _JUDGE,
        "if held.root != VALUE for rref in held.rrefs}",
        "if held.root == GLOBAL for rref in held.rrefs}",
        _LOST,
        "an RRef that a running function or something unseen holds counts as lost",
    ),
    Mutant(
        "lost-though-going",
        _JUDGE,
        "    found |= {rref for held in every for rref in held.of} - ",
        "    found |= set() and {rref for held in every for rref in held.of} - ",
        _LOST,
        "a value whose deletion is under way makes what it holds a leak",
    ),
    Mutant(
        "lost-through-one-value",
        _JUDGE,
        "        found.update(rref for held in every if not found.isdisjoint(held.of)",
        "        found.update(rref for held in every if held.of and found.issuperset(held.of)",
        (f"{_LOST[0]}[snapshots8-0]",),
        "an RRef that one value in use and one lost value hold counts as lost",
    ),
    Mutant(
        "lost-without-every-role",
        _JUDGE,
        "if every and held.root == VALUE and",
        "if held.root == VALUE and",
        _LOST,
        "an RRef counts as lost although a role that may lead to it did not answer",
    ),
    Mutant(
        "idle-in-the-middle",
        _JUDGE,
        "elif held.root == GLOBAL and held.idle and ended:",
        "elif held.root == GLOBAL and held.idle:",
        (f"{_LEAKS}_rrefs_in_a_global_list_are_no_leak_in_the_middle_of_a_run",),
        "a list that is being filled counts as a leak in the middle of a run",
    ),
    Mutant(
        "on-its-way-ignored",
        _JUDGE,
        "    return sum(each.pickled for each in snapshots.values()) ==",
        "    return True or 0 ==",
        (f"{_HOLDINGS}_an_rref_on_its_way_keeps_a_world_from_being_settled",),
        "an RRef that is under way does not count as held",
    ),
    Mutant(
        "never-idle",
        _RREFS,
        "self._last.get((line, known.owner), 0) > known.used",
        "False",
        (f"{_LEAKS}_rrefs_in_a_global_list_are_no_leak_in_the_middle_of_a_run",),
        "RRefs that pile up in a list are never told from those in use",
    ),
    Mutant(
        "answer-without-its-line",
        _RREFS,
        '                self._place(known, "answer", lines)',
        '                self._place(known, "answer", ())',
        (f"{_LEAKS}_an_rref_in_an_answer_is_named_by_the_line_that_asked",),
        "an RRef that came in an answer has no line",
    ),
    Mutant(
        "argument-without-its-function",
        _RREFS,
        '                self._place(known, "argument", line_of(function))',
        '                self._place(known, "argument", ())',
        (f"{_LEAKS}_forks_are_named_with_their_holders_and_the_line_where_they_were_made",),
        "an RRef that came as an argument has no line",
    ),
    Mutant(
        "context-never-abandoned",
        _HOOKS,
        "        contexts.enter(number, self)\n",
        "",
        (f"{_LEAKS}_an_autograd_context_is_a_leak_when_nothing_can_leave_it",),
        "a context whose `with` object is gone counts as open",
    ),
    Mutant(
        "untrace-leaves-the-hooks",
        _HOOKS,
        "    undo.callback(_put_back, owner, name, vars(owner)[name], new)\n",
        "",
        (f"{_LEAKS}_untrace_puts_every_function_of_torch_back",),
        "functions of torch stay replaced",
    ),
    Mutant(
        "untrace-removes-a-plan",
        _HOOKS,
        "    if vars(owner)[name] is new:\n        setattr(owner, name, original)\n",
        "    setattr(owner, name, original)\n",
        (f"{_LEAKS}_untrace_leaves_what_another_has_replaced_since",),
        "a plan that was activated after the trace began stops working with the trace",
    ),
    Mutant(
        "variables-kept-by-the-search",
        "faults/tracing/holders.py",
        "            variables.clear()",
        "            pass",
        (f"{_HOLDERS}_the_search_keeps_nothing_alive",),
        "looking for holders keeps what it looks at alive",
    ),
    Mutant(
        "functions-not-searched",
        "faults/tracing/holders.py",
        "    search.go_down(_of_functions())\n",
        "",
        (f"{_HOLDERS}_a_running_function_comes_before_a_global",),
        "what a running function uses counts as held by a global alone",
    ),
    Mutant(
        "unseen-holders-ignored",
        "faults/tracing/holders.py",
        "    search.go_down_from_unseen(values)\n",
        "",
        (
            f"{_UNSEEN}_what_something_unseen_holds_is_in_use",
            f"{_LEAKS}_an_rref_to_which_something_unseen_leads_is_no_leak",
            f"{_LEAKS}_a_value_of_two_rrefs_is_in_use_if_a_variable_leads_to_one",
        ),
        "what a context variable, atexit or a signal handler uses is called a leak",
    ),
    Mutant(
        "rref-of-a-value-unseen",
        "faults/tracing/holders.py",
        "{id(value): 2 for value in found}",
        "{id(value): 1 for value in found}",
        (f"{_LEAKS}_a_value_that_holds_its_own_rref_is_a_leak_once_nothing_else_refers_to_it",),
        "the RRef in C++ counts as something unseen, so that no value is ever lost",
    ),
    Mutant(
        "references-counted-once",
        "faults/tracing/holders.py",
        "            known[key] += 1",
        "            known[key] = known[key] + 1 if key in values else 1",
        (f"{_UNSEEN}_what_only_a_value_holds_is_told_however_the_value_refers_to_itself",),
        "an object that another one refers to twice counts as held by something unseen",
    ),
    Mutant(
        "builtin-methods-not-followed",
        "faults/tracing/holders.py",
        "_LEAVES = (type,",
        "_LEAVES = (type(len), type,",
        (f"{_UNSEEN}_what_only_a_value_holds_is_told_however_the_value_refers_to_itself",),
        "a list whose method something keeps counts as held by something unseen",
    ),
    Mutant(
        "copied-value-counts-as-held",
        _RREFS,
        "        if look() is value:\n",
        "        if value is not None:\n",
        (f"{_LEAKS}_a_value_of_which_torch_keeps_a_copy_is_not_held_by_its_rref",),
        "an object of which torch keeps a copy counts as the value of an RRef",
    ),
    Mutant(
        "trace-not-asked-for",
        "faults/ledger/record.py",
        "    return (Path(folder) / TRACE).exists()",
        "    return True",
        (f"{_SCRIPTS}_a_new_run_in_the_folder_is_traced_only_if_it_asks_for_that",),
        "every run is traced, and pays for it",
    ),
)
