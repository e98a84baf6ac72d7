"""Everything is in pyproject.toml but one thing that it cannot say: a file that lies beside the packages.

Python reads ``faults.pth`` at its start: FAULTS_RUN then puts a plan to work in any program, by
`torch_rpc_reference_startup`.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithStartup(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("faults.pth", str(Path(self.build_lib, "faults.pth")))


setup(cmdclass={"build_py": WithStartup})
