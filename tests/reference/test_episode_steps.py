"""The steps of an episode: whose silence ends them in which mode, and with which error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import torch

from reference.rpc.episode_steps import EpisodeFailed, EpisodeSteps

NAMES = ("observer1", "observer2")


class Failed(EpisodeFailed):
    """A tutorial's own error."""


@contextmanager
def steps(together: bool, timeout: float = 60) -> Iterator[EpisodeSteps[str]]:
    with closing(EpisodeSteps[str](NAMES, 3, timeout, Failed, together=together)) as made:
        yield made


def calls() -> dict[str, torch.futures.Future[int]]:
    return {name: torch.futures.Future() for name in NAMES}


@pytest.mark.parametrize("together", [True, False])
def test_results_are_in_the_order_of_the_calls(together: bool) -> None:
    futures = calls()
    for result, name in enumerate(reversed(NAMES)):
        futures[name].set_result(result)
    with steps(together) as episode:
        assert episode.wait_all(futures) == [1, 0]


@pytest.mark.parametrize("together", [True, False])
def test_a_failing_call_ends_the_episode_for_all_with_the_episodes_error(together: bool) -> None:
    futures = calls()
    futures["observer2"].set_exception(ValueError("the pole is gone"))
    futures["observer1"].set_result(0)
    with steps(together) as episode:
        with pytest.raises(Failed, match=r"^observer2 failed: the pole is gone$"):
            episode.wait_all(futures)
        with pytest.raises(Failed, match=r"^observer2 failed: the pole is gone$"):
            episode.join("observer1")


def test_a_step_that_is_not_complete_ends_the_episode_if_observers_act_together() -> None:
    with steps(together=True, timeout=0.2) as episode:
        episode.join("observer1")
        futures = calls()
        futures["observer1"].set_result(0)
        with pytest.raises(Failed, match=r"^nothing for 0\.2 s from observer2$"):
            episode.wait_all(futures)


def test_no_step_has_a_deadline_if_observers_act_separately() -> None:
    with steps(together=False, timeout=0.2) as episode:
        assert episode.timeout == math.inf


def test_the_silence_of_one_observer_ends_the_episode_if_they_act_separately() -> None:
    futures = calls()
    futures["observer2"].set_result(0)
    silent = pytest.raises(Failed, match=r"^nothing for 0\.2 s from observer1$")
    with steps(together=False, timeout=0.2) as episode, silent:
        episode.wait_all(futures)


def test_a_second_call_in_one_step_is_refused_by_its_name() -> None:
    with steps(together=True) as episode:
        episode.join("observer1")
        with pytest.raises(Failed, match=r"^observer1 calls twice in one step$"):
            episode.join("observer1")
