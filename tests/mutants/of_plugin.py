"""Bugs in what the pytest plugin notices, and undoes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PLANS = "tests/test_plugin_plans.py"
_TABLE = (f"{_PLANS}::test_a_mark_alone_hurts_its_test_or_fails_it_and_is_undone",)
_REFUSED = (f"{_PLANS}::test_marks_that_are_no_plan_are_refused_beside_every_fixture",)
_STARTUP = "tests/test_startup.py"
_PLUGIN, _WANTED, _TALLY = "faults/pytest_plugin.py", "faults/wanted.py", "faults/tally.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "mark-alone-ignored",
        _PLUGIN,
        """names is not None and "_faults_plan" not in names:""",
        """names is not None and "plan" in names:""",
        _TABLE,
        "a mark does nothing in a test that does not name the fixture",
    ),
    Mutant(
        "unused-plan-passes",
        _PLUGIN,
        "    if scene.plan is None or not (scene.plan.guest or scene.plan.worked()):",
        "    if scene.plan is None:",
        _TABLE,
        "a test whose plan no world was given passes",
    ),
    Mutant(
        "late-mark-ignored",
        _PLUGIN,
        """    return "" if marks_of(item) == scene.marks else""",
        """    return "" if scene.marks else""",
        _TABLE,
        "a mark that comes after the set-up does nothing",
    ),
    Mutant(
        "misuse-excused",
        _PLUGIN,
        "    if excinfo is None or not isinstance(excinfo.value, Misuse):",
        "    if True:",
        _REFUSED,
        "a mark that is no plan counts as the failure that was expected",
    ),
    Mutant(
        "second-mark-dropped",
        _WANTED,
        """for mark in node.own_markers if mark.name == "plan"]""",
        """for mark in node.own_markers if mark.name == "plan"][:1]""",
        _REFUSED,
        "of several marks one counts",
    ),
    Mutant(
        "second-argument-dropped",
        _WANTED,
        "for text in group]",
        "for text in list(group)[:1]]",
        _REFUSED,
        "of several texts one counts",
    ),
    Mutant(
        "joined-plan-halved",
        _WANTED,
        "    return Plan(tuple(fault for plan in plans for",
        "    return Plan(tuple(fault for plan in plans[-1:] for",
        _TABLE,
        "several texts are read, and one is put to work",
    ),
    Mutant(
        "second-seed-dropped",
        _WANTED,
        "    if len(seeds) > 1:",
        "    if len(seeds) > 2:",
        _REFUSED,
        "of two seeds one counts",
    ),
    Mutant(
        "options-not-agreed",
        _WANTED,
        "        if len(values) > 1:",
        "        if len(values) > 2:",
        _REFUSED,
        "one mark's unseen excuses the messages of another",
    ),
    Mutant(
        "empty-plan-taken",
        _WANTED,
        "    if not plan.faults:",
        "    if not plan.faults and text:",
        ("tests/test_pytest_plugin.py::test_options_that_mean_nothing",),
        "an empty plan hurts nothing, and the run passes",
    ),
    Mutant(
        "seed-alone-taken",
        _WANTED,
        "    if not plan.faults:",
        "    if not plan.faults and not plan.seed:",
        _REFUSED,
        "a plan that has only a seed hurts nothing",
    ),
    Mutant(
        "unseen-for-all",
        _WANTED,
        """unseen = options["unseen"] and not strange""",
        """unseen = options["unseen"]""",
        (f"{_PLANS}::test_a_test_vouches_for_its_own_messages_alone",),
        "messages of the option may go unseen where a mark has said so of others",
    ),
    Mutant(
        "option-for-few",
        _WANTED,
        "(marks or fixtures & HURT):",
        """(marks or "plan" in fixtures):""",
        (f"{_PLANS}::test_a_plan_of_the_command_line_hurts_every_test_with_a_world[0]",),
        "the option says nothing of tests that do not name the fixture",
    ),
    Mutant(
        "unhurt-run-passes",
        _TALLY,
        "exitstatus == pytest.ExitCode.OK and self._unproven():",
        "exitstatus == pytest.ExitCode.OK and self._unproven() and self._ran:",
        (f"{_PLANS}::test_a_run_without_a_test_for_the_plan_of_the_command_line_does_not_pass",),
        "no test ran under the plan of the option, and the run passes",
    ),
    Mutant(
        "unfired-run-passes",
        _TALLY,
        "if number not in self._fired]",
        "if number not in self._fired and self._without]",
        (f"{_PLANS}::test_a_run_that_a_plan_of_the_command_line_did_not_hurt_does_not_pass",),
        "the option's plan fired nowhere, and the run passes",
    ),
    Mutant(
        "counted-without-a-world",
        _TALLY,
        """        if account.get("worked"):""",
        """        if account:""",
        _TABLE,
        "a test counts as run under a plan that no world was given",
    ),
    Mutant(
        "plan-stays-in-an-idle-world",
        "faults/planned.py",
        "        self._stack.callback(_everywhere, world, _deactivate)",
        "        self._stack.callback(_everywhere, world, list)",
        _TABLE,
        "a plan goes on in an idle world after its test",
    ),
    Mutant(
        "plan-stays-after-a-failure",
        _PLUGIN,
        """        yield planned
    finally:
        planned.close()""",
        """        yield planned
    finally:
        if not request.node.stash[_scene].failed:
            planned.close()""",
        _TABLE,
        "a plan goes on in an idle world after a test that has failed",
    ),
    Mutant(
        "temporary-folder-stays",
        _PLUGIN,
        "        tempfile.tempdir = before",
        "        tempfile.tempdir = before if left else tempfile.tempdir",
        _TABLE,
        "temporary files go to the plugin's folder after the last test",
    ),
    Mutant(
        "own-hook-stays",
        _PLUGIN,
        """        sys.modules["faults.hook"].remove()
""",
        "",
        (f"{_PLANS}::test_a_plan_that_a_test_leaves_in_its_own_process_is_removed_and_told",),
        "a plan that a test put into pytest's own process hurts the next one",
    ),
    Mutant(
        "idle-logs-not-kept",
        _PLUGIN,
        """    finally:
        scene.save()""",
        """    finally:
        if scene.folder is not None:
            scene.save()""",
        ("tests/test_pytest_plugin.py::test_a_failing_test_shows_plan_timeline_logs_and_stacks",),
        "the folder that a failing test names is empty where it had only an idle world",
    ),
    Mutant(
        "last-log-lost",
        "reference/world.py",
        "for name in self._seats}\n        self._clean()",
        "for name in list(self._seats)[:-1]}\n        self._clean()",
        ("tests/test_world.py::TestLogs::test_the_log_of_every_role_outlives_the_world",),
        "the last role's log is lost when its world closes",
    ),
    Mutant(
        "expected-failures-need-no-fault",
        _PLUGIN,
        "    if text := _not_fired(item):",
        "    if (text := _not_fired(item)) and not item.get_closest_marker('xfail'):",
        _TABLE,
        "a test that is expected to fail is right though its fault never fired",
    ),
    Mutant(
        "any-message-unseen",
        "faults/planned.py",
        "        return {number: self._unseen and silent for number, silent in found.items()}",
        "        return dict.fromkeys(found, self._unseen)",
        _TABLE,
        "a test answers for a message of which a call would have told",
    ),
    Mutant(
        "no-message-is-shown",
        "faults/messages.py",
        """    return via is not None and (fault.kind == "Delay" or via == "rpc" or _alone(plan))""",
        """    return via is not None and bool(fault) and not _alone(plan)""",
        ("tests/test_messages.py::TestEvidence::test_messages_that_no_recorded_call_can_show",),
        "of a Python call that is never lost nobody could have told",
    ),
    Mutant(
        "a-tests-own-roles-are-not-read",
        "faults/pytest_plugin.py",
        "        check_world(item)\n",
        "",
        ("tests/test_pytest_plugin.py::test_a_test_that_asks_for_what_there_is_not_is_told_in_one_line",),
        "a mark world of one test says nothing, beside its module's",
    ),
    Mutant(
        "the-last-option-wins",
        _WANTED,
        "[value] if isinstance(value, str) else value]",
        "[value] if isinstance(value, str) else value[-1:]]",
        (f"{_PLANS}::test_several_options_of_a_run_are_joined_to_one_plan",),
        "of two options --faults-plan only the last hurts, and the run says nothing of the first",
    ),
    Mutant(
        "a-hidden-plugin-is-loaded",
        "torch_rpc_reference_plugin.py",
        """[] if HIDDEN else ["faults.pytest_plugin"]""",
        """["faults.pytest_plugin"]""",
        (f"{_STARTUP}::TestPytest::test_their_tests_run_without_the_plugin[faults-python -m pytest]",),
        "a user's own faults.py ends pytest in a traceback",
    ),
    Mutant(
        "the-current-folder-is-not-looked-at",
        "torch_rpc_reference_plugin.py",
        "hiding(os.getcwd())",
        "hiding()",
        (f"{_STARTUP}::TestPytest::test_their_tests_run_without_the_plugin[faults-pytest]",),
        "the plugin takes the place of a user's own faults.py, whose tests then fail",
    ),
    Mutant(
        "a-startup-keeps-the-name",
        "torch_rpc_reference_startup.py",
        "self.kept = {name: sys.modules.pop(name) for name in names}",
        "self.kept = {name: sys.modules[name] for name in names}",
        (f"{_STARTUP}::test_a_program_with_their_module_runs_under_the_variable[faults-beside the program]",),
        "a program under FAULTS_RUN imports this project's faults instead of its own",
    ),
    Mutant(
        "a-startup-that-fails-is-a-traceback",
        "torch_rpc_reference_startup.py",
        "    except Exception as error:",
        "    except ImportError as error:",
        (f"{_STARTUP}::test_a_start_that_fails_leaves_the_program_alone[usual]",),
        "Python prints a traceback at the start of every program",
    ),
    Mutant(
        "a-left-variable-is-silent",
        "faults/autostart.py",
        "    if os.environ.get(SAID) != folder:",
        "    if os.environ.get(SAID) == folder:",
        (f"{_STARTUP}::test_a_variable_that_is_left_exported_is_told_once",),
        "FAULTS_RUN was exported for another run, and hurts this one without a word",
    ),
)
