# SPDX-License-Identifier: Apache-2.0
"""What a picture does not show, in words: nobody should take a part for the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlipaudit.reporting.charts.readings import Answers


def missing_text(answers: Sequence[Answers], shown: Mapping[str, int], *, all_systems: bool) -> str:
    """Which models lack how many systems.

    Args:
        answers: of all models.
        shown: model -> systems in the picture.
        all_systems: whether it shows all systems, or those that were chosen.
    """
    reasons: dict[str, list[str]] = {}
    for one in answers:
        asked = max(len(one.entries), (one.result.num_systems or 0) if all_systems else 0)
        lacking = asked - shown.get(one.model, 0)
        if one.result.failure is not None:
            reasons.setdefault(f"all of {{}} ({one.result.failure.kind})", []).append(one.model)
        elif lacking > 0:
            reasons.setdefault(f"{lacking} of {asked} systems of {{}}", []).append(one.model)
    listed = _listed(reasons, len(answers))
    return f"Without a number, and not shown: {listed}" if listed else ""


def thinned_text(counts: Sequence[tuple[str, int, int]]) -> str:
    """Where marks were left out: (model, drawn, there are)."""
    parts: dict[str, list[str]] = {}
    for model, drawn, total in counts:
        if drawn < total:
            parts.setdefault(f"{drawn} of {total} of {{}}", []).append(model)
    listed = _listed(parts, len(counts))
    return f"Drawn are {listed}, the extremes among them" if listed else ""


def _listed(parts: Mapping[str, Sequence[str]], number: int) -> str:
    """What holds of which models, in words; of all of several at once."""
    names = {
        text: "each model" if len(models) == number > 1 else ", ".join(models) for text, models in parts.items()
    }
    return "; ".join(text.format(models) for text, models in names.items())


def settings_text(answers: Sequence[Answers]) -> str:
    """Under what each model was asked, where that differs."""
    settings = {
        one.model: (one.record.provenance.identity.run_mode, one.record.provenance.data_edition) for one in answers
    }
    if len(set(settings.values())) < 2:
        return ""
    listed = ", ".join(f"{model} {mode} on {edition or 'no'} data" for model, (mode, edition) in settings.items())
    return f"Not asked the same, so do not compare: {listed}"
