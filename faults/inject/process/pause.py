"""One pause of a process: the role that fires starts its guardian and waits for it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from faults.inject.process import guardian
from faults.inject.process.target import EFFECT_SECONDS, CannotFireError


class Pause:
    """A guardian that is ready, seen from the role that fires. Raises CannotFireError: it does not get ready."""

    def __init__(self, path: Path, pid: int, handle: int, seconds: float, named: dict[str, object]) -> None:
        self.pid = pid
        self._target = os.dup(handle)
        own, ledger = os.pidfd_open(os.getpid()), os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            details = {**named, "pid": pid, "process": os.getpid()}
            told = {"target": self._target, "firing": own, "ledger": ledger, "pid": pid, "seconds": seconds}
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, json.dumps({**told, "details": details})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._target, own, ledger),
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            os.close(self._target)
            raise
        finally:
            os.close(own)
            os.close(ledger)
        try:
            self._expect("ready")
        except CannotFireError:
            self.end()
            raise

    def order(self) -> None:
        """Stop the process now."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"!")

    def await_effect(self) -> None:
        """Wait until the process is stopped. Raises CannotFireError: it does not stop."""
        self._expect("stopped")

    def _expect(self, wanted: str) -> None:
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], [], [], EFFECT_SECONDS)[0]
        said = self.process.stdout.readline().decode().strip() if ready else ""
        if said != wanted:
            raise CannotFireError(said or f"the guardian did not say {wanted!r} within {EFFECT_SECONDS:g} s")

    def end(self) -> None:
        """Continue the process, even if the guardian cannot, and wait for the guardian's end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        # The guardian's output ends when the guardian does.
        while select.select([self.process.stdout], [], [], EFFECT_SECONDS)[0] and self.process.stdout.read(4096):
            pass
        self.process.kill()
        if self.process.wait() != 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._target, signal.SIGCONT)
        self.process.stdout.close()
        os.close(self._target)
