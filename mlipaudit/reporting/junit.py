# SPDX-License-Identifier: Apache-2.0
"""What the gate says as JUnit XML: every benchmark a test, as CI systems show them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from mlipaudit.reporting.gate import Finding, Judgement, Outcome

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, even escaped."""


def as_junit(judgements: Sequence[Judgement], *, strict: bool = False) -> str:
    """One suite per candidate, one test per benchmark and an overall one; if strict, what is undecided fails."""
    root = ElementTree.Element("testsuites")
    for judgement in judgements:
        root.append(_suite(judgement, strict=strict))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(judgement: Judgement, *, strict: bool) -> ElementTree.Element:
    comparison = judgement.comparison
    title = f"{comparison.candidate} against {comparison.baseline}"
    cases = [_case(finding, title, strict=strict) for finding in judgement.findings]
    counted = {f"{tag}s" if tag == "failure" else tag: sum(c.find(tag) is not None for c in cases) for tag in TAGS}
    seconds = sum(float(case.get("time", "0")) for case in cases)
    about = {"name": title, "tests": len(cases), **counted, "errors": 0, "time": f"{seconds:.3f}"}
    suite = _element("testsuite", about)
    suite.extend(cases)
    return suite


TAGS = ("failure", "skipped")


def _case(finding: Finding, suite: str, *, strict: bool) -> ElementTree.Element:
    seconds = 0.0 if math.isnan(finding.seconds) else finding.seconds
    case = _element("testcase", {"classname": suite, "name": finding.name, "time": f"{seconds:.3f}"})
    message = f"{finding.outcome}: {finding.why}" if finding.why else str(finding.outcome)
    if finding.outcome is Outcome.FAILS or (strict and finding.outcome is Outcome.UNDECIDED):
        case.append(_element("failure", {"type": finding.outcome, "message": message}))
    elif finding.outcome is Outcome.SKIPPED:
        case.append(_element("skipped", {"message": message}))
    elif finding.why:
        case.append(_element("system-out", {}, message))
    return case


def _element(tag: str, attributes: dict[str, object], text: str | None = None) -> ElementTree.Element:
    element = ElementTree.Element(tag, {name: _valid(str(value)) for name, value in attributes.items()})
    element.text = None if text is None else _valid(text)
    return element


def _valid(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)
