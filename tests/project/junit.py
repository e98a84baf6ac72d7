"""Read a test's entry in pytest's report in JUnit's format (family xunit1)."""

from __future__ import annotations

from xml.etree import ElementTree


def node_id(case: ElementTree.Element) -> str:
    """The test's id as pytest writes it: file, classes, function and parameters."""
    file, name = case.get("file") or "", case.get("name") or ""
    module = file.removesuffix(".py").replace("/", ".")
    inner = (case.get("classname") or "").removeprefix(module).strip(".")
    return "::".join([file, *filter(None, inner.split(".")), name])
