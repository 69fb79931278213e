# SPDX-License-Identifier: Apache-2.0
"""Whether the dihedral angles that proteins visit at 300 K are those of known structures.

A sample is the phi and psi, or all chi angles, of one residue in one frame. It is an outlier when it is farther than
10° from every reference point, Euclidean over the angles and periodic. Scored are the shares of outliers per type of
residue, backbone (threshold 0.1) and side chain (0.03), mean over the types present; frames as in `folding_stability`,
whose trajectories these are. A protein that failed counts 0.

The test flags samples of the reference distribution itself, the more the more angles a residue has: its null rate is
reported beside each ratio, and the excess over it, which does not score. A ring of PHE or TYR that flips is where the
reference points must have it too: chi2 is not folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from mlipaudit.analysis.dihedral_distributions import null_rate
from mlipaudit.analysis.dihedrals import SIDE_CHAINS
from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks.sampling.judgement import (
    KINDS,
    References,
    excess_rates,
    judge_protein,
    mean_rates,
    pooled_interval,
    pooled_score,
    score_of,
)
from mlipaudit.benchmarks.sampling.schemas import (
    ResidueTypeBackbone,
    ResidueTypeSidechain,
    SamplingResult,
    SamplingSystemResult,
)
from mlipaudit.data import read_json
from mlipaudit.errors import DataCorruptError
from mlipaudit.families.proteins import (
    Protein,
    ProteinBenchmark,
    ProteinDynamics,
    ProteinsModelOutput,
    answers,
    proton_warnings,
)
from mlipaudit.scoring import score_systems
from mlipaudit.views import Axis, Bars

__all__ = [
    "ResidueTypeBackbone",
    "ResidueTypeSidechain",
    "SamplingBenchmark",
    "SamplingModelOutput",
    "SamplingResult",
    "SamplingSystemResult",
]

SamplingModelOutput = ProteinsModelOutput
BACKBONE = TypeAdapter(dict[str, ResidueTypeBackbone])
SIDE_CHAIN = TypeAdapter(dict[str, ResidueTypeSidechain])


class SamplingReference(NamedTuple):
    """Proteins, and what their angles are compared with."""

    proteins: Mapping[str, Protein]
    dihedrals: References


class SamplingBenchmark(ProteinBenchmark):
    """Do proteins visit the dihedral angles of known structures?"""

    name = "sampling"
    result_class = SamplingResult
    views = (
        Bars(
            "Backbone outliers",
            value=Axis("outliers_ratio_backbone_dihedrals", "share of outliers"),
            reference="null_outliers_ratio_backbone_dihedrals",
            caption="Share of sampled φ and ψ that no reference point is near, by type of residue; the mark is what a "
            "sample of the reference itself gets.",
        ),
        Bars(
            "Side-chain outliers",
            value=Axis("outliers_ratio_sidechain_dihedrals", "share of outliers"),
            reference="null_outliers_ratio_sidechain_dihedrals",
            caption="Share of sampled χ angles that no reference point is near, by type of residue; the mark is what a "
            "sample of the reference itself gets.",
        ),
        Bars(
            "Backbone outliers of this protein",
            value=Axis("outliers_ratio_backbone_dihedrals", "share of outliers"),
            of_result=False,
        ),
        Bars(
            "Side-chain outliers of this protein",
            value=Axis("outliers_ratio_sidechain_dihedrals", "share of outliers"),
            of_result=False,
        ),
    )

    @classmethod
    def proteins(cls, reference: SamplingReference) -> Mapping[str, Protein]:
        """Those of the reference."""
        return reference.proteins

    @classmethod
    def load(cls, data_dir: Path, protocol: ProteinDynamics) -> SamplingReference:
        """Proteins and reference points."""
        return SamplingReference(super().load(data_dir, protocol), read_references(data_dir))

    @classmethod
    def judge(
        cls, output: ProteinsModelOutput, reference: SamplingReference, protocol: ProteinDynamics
    ) -> SamplingResult:
        """Outliers of every protein that stayed whole, their means by type of residue, and the score."""
        judged = list(answers(output, reference.proteins, protocol))
        pairs = [judge_protein(answer, reference.dihedrals, protocol) for answer in judged]
        entries = [entry for entry, _ in pairs]
        result = SamplingResult(
            systems=entries,
            exploded_systems=[entry.structure_name for entry in entries if entry.failed],
            failures={entry.structure_name: entry.failure for entry in entries if entry.failure},
            warnings=[f"{e.structure_name}: {what}" for e, left_out in pairs for what in left_out]
            + proton_warnings(judged),
            **BenchmarkResult.fields_of(score_systems(entries)),
        )
        if result.failed:
            return result
        # The published score averages ratios over proteins before it scores them.
        pooled = {"score": pooled_score(entries), "score_interval": pooled_interval(entries)}
        return result.model_copy(update=pooled | _means(entries, reference.dihedrals))


def _means(entries: list[SamplingSystemResult], references: References) -> dict[str, Any]:
    """Fields that are means over proteins, or over types of residues."""
    fields: dict[str, Any] = {}
    for kind in KINDS:
        for what in ("rmsd", "hellinger_distance", "outliers_ratio"):
            fields[f"{what}_{kind}_dihedrals"] = mean_rates(entries, f"{what}_{kind}_dihedrals")
        rates = fields[f"outliers_ratio_{kind}_dihedrals"]
        null = {name: null_rate(references.points(kind, name)) for name in rates}
        fields[f"null_outliers_ratio_{kind}_dihedrals"] = null
        fields[f"excess_outliers_ratio_{kind}_dihedrals"] = excess_rates(rates, null)
    totals = {name.replace("_dihedrals", "_total"): _mean(rates) for name, rates in fields.items()}
    excess = {kind: _known(fields[f"excess_outliers_ratio_{kind}_dihedrals"]) for kind in KINDS}
    return fields | totals | {"calibrated_score": score_of(excess) if any(excess.values()) else None}


def _known(rates: Mapping[str, float | None]) -> list[float]:
    return [rate for rate in rates.values() if rate is not None]


def _mean(rates: Mapping[str, float | None]) -> float | None:
    return float(np.mean(_known(rates))) if _known(rates) else None


def read_references(data_dir: Path) -> References:
    """The reference points of backbones and side chains.

    Raises:
        DataCorruptError: the angles of a type are not equally many.
    """
    backbone = read_json(data_dir, "backbone_reference_data.json", BACKBONE)
    side_chain = read_json(data_dir, "sidechain_reference_data.json", SIDE_CHAIN)
    angles = {
        name: [getattr(r, f"chi{k + 1}") for k in range(len(SIDE_CHAINS[name].split()))]
        for name, r in side_chain.items()
        if SIDE_CHAINS.get(name)
    }
    return References(
        {name: _points(name, [r.phi, r.psi]) for name, r in backbone.items()},
        {name: _points(name, columns) for name, columns in angles.items() if None not in columns},
    )


def _points(name: str, columns: list[Any]) -> np.ndarray:
    if not columns[0] or len({len(column) for column in columns}) > 1:
        raise DataCorruptError(f"the reference angles of {name} are not equally many, or none")
    return np.column_stack(columns)
