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
    """A program, the verdict that it must get, and words of its reason."""

    name: str
    program: str
    verdict: str
    told: str

    @property
    def command(self) -> tuple[str, ...]:
        """Its arguments after the name of Python."""
        return "-c", _BEGIN + self.program


HOSTILE = (
    Hostile("nothing written", "", "malformed", "there is no trace.safetensors"),
    Hostile("an empty file", "(out / 'trace.safetensors').touch()", "malformed", "0 bytes, wanted a safetensors file"),
    Hostile(
        "cut in the header", "answer({'a': entry}, b'', 1000)", "malformed", "a header of 1000 bytes, wanted at most"
    ),
    Hostile("a header of a gigabyte", "answer({}, b'', 2**30)", "malformed", f"a header of {2**30} bytes"),
    Hostile("cut in the tensors", "answer({'a': entry}, bytes(8))", "malformed", "within 8 bytes"),
    Hostile(
        "overlapping tensors",
        "answer({'a': entry, 'b': {**entry, 'data_offsets': [8, 24]}}, bytes(24))",
        "malformed",
        "overlap",
    ),
    Hostile("a name that leads out", "answer({'../a': entry})", "malformed", "no empty part, '.' or '..'"),
    Hostile(
        "a name twice",
        "(out / 'trace.safetensors').write_bytes(struct.pack('<Q', 14) + b'{\"a\":1, \"a\":2}')",
        "malformed",
        "given twice",
    ),
    Hostile("a pipe", "os.mkfifo(out / 'trace.safetensors')", "malformed", "not a plain file"),
    Hostile(
        "the input",
        "(out / 'trace.safetensors').write_bytes((given / 'input.safetensors').read_bytes())",
        "malformed",
        "yours has, and the reference does not,",
    ),
    Hostile("its folder removed", "out.rmdir()", "malformed", "there is no trace.safetensors"),
    Hostile(
        "another case's answer",
        "(out / 'result.json').write_text('{\"id\": \"rnn-001\"}')",
        "malformed",
        "answers case 'rnn-001'",
    ),
    Hostile("a result that is no JSON", "(out / 'result.json').write_text('{')", "malformed", "must be a JSON object"),
    Hostile(
        "a skip without a reason",
        "(out / 'result.json').write_text('{\"status\": \"skipped\"}')",
        "malformed",
        "skipped without a reason",
    ),
    Hostile(
        "a gigabyte of tensors",
        "answer({'a': entry}); os.truncate(out / 'trace.safetensors', 2**30)",
        "malformed",
        "it has more than",
    ),
    Hostile(
        "a gigabyte of output",
        "for _ in range(2**10): print('x' * 2**20)",
        "malformed",
        "there is no trace.safetensors",
    ),
    Hostile("a hang", "time.sleep(3600)", "timed out", "and was ended"),
    Hostile("a crash", "os.kill(os.getpid(), 11)", "errored", "signal 11"),
    Hostile("an error", "raise ValueError('no such layer\\n')", "errored", "exit status 1: ValueError: no such layer"),
)
