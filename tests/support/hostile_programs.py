"""Programs that answer with what is no answer: cut and lying files, pipes, hangs, too much output."""

from __future__ import annotations

from dataclasses import dataclass

# Every program begins so: its case, the folder for its answer, and a right header of one tensor of two numbers.
_BEGIN = """\
import json, os, pathlib, struct, sys, time
given, out = map(pathlib.Path, sys.argv[1:])
entry = {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}
def answer(header, body=bytes(16), length=None):
    text = json.dumps(header).encode()
    length = len(text) if length is None else length
    (out / "trace.safetensors").write_bytes(struct.pack("<Q", length) + text + body)
"""


@dataclass(frozen=True)
class Hostile:
    """A program, words of the reason that it must get, and the verdict."""

    name: str
    program: str
    told: str
    verdict: str = "malformed"

    @property
    def command(self) -> tuple[str, ...]:
        """Its arguments after the name of Python."""
        return "-c", _BEGIN + self.program


_OVERLAPPING = "{'a': entry, 'b': {**entry, 'data_offsets': [8, 24]}}"
_TRACE = "(out / 'trace.safetensors')"
_RESULT = "(out / 'result.json')"

HOSTILE = (
    Hostile("nothing written", "", "there is no trace.safetensors"),
    Hostile("cut in the header", "answer({'a': entry}, b'', 1000)", "a header of 1000 bytes, wanted at most"),
    Hostile("overlapping tensors", f"answer({_OVERLAPPING}, bytes(24))", "overlap"),
    Hostile("a pipe", "os.mkfifo(out / 'trace.safetensors')", "not a plain file"),
    Hostile(
        "the input",
        f"{_TRACE}.write_bytes((given / 'input.safetensors').read_bytes())",
        "yours has, and the reference does not,",
    ),
    Hostile("its folder removed", "out.rmdir()", "there is no trace.safetensors"),
    Hostile("a file in its folder's place", "out.rmdir(); out.touch()", "there is no trace.safetensors"),
    Hostile("another case's answer", _RESULT + """.write_text('{"id": "rnn-001"}')""", "answers case 'rnn-001'"),
    Hostile("a result that is no JSON", _RESULT + ".write_text('{')", "must be a JSON object"),
    Hostile(
        "a skip without a reason", _RESULT + """.write_text('{"status": "skipped"}')""", "skipped without a reason"
    ),
    Hostile(
        "a gigabyte of tensors",
        "answer({'a': entry}); os.truncate(out / 'trace.safetensors', 2**30)",
        "it has more than",
    ),
    Hostile("a gigabyte of output", "for _ in range(2**10): print('x' * 2**20)", "there is no trace.safetensors"),
    Hostile("a hang", "time.sleep(3600)", "and was ended", "timed out"),
    Hostile("a crash", "os.kill(os.getpid(), 11)", "signal 11", "errored"),
    Hostile(
        "an error",
        "os.write(2, b'\\xff'); raise ValueError('no such layer\\n')",
        "exit status 1: ValueError: no such layer",
        "errored",
    ),
)
