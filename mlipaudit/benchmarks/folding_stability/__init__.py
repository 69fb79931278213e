# SPDX-License-Identifier: Apache-2.0
"""Whether small proteins keep their fold while they move in water at 300 K.

Scored is the Cα RMSD to the reference structure, mean over the frames of the published protocol: every 10 000th
step of 250 000. TM-score, radius of gyration and secondary structure stand beside it. Frames are kept ten times as
often, and the intervals over time rest on all of them. In a quarter of a nanosecond hardly a protein unfolds by itself:
the score shows a model that pulls it apart, not one whose fold is wrong. `fast` is 2 ps, a shortened protocol for
laptops (the reference runs 250 ps), `dev` 5 fs, in which nothing can happen.

The TM-score pairs each residue with itself. TM-align, which 0.1.8 asks, may pair it with a neighbour where the
structures differ much, and gives up to 0.04 more there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mlipaudit.analysis.protein_shape import radii_of_gyration, tm_score
from mlipaudit.analysis.secondary_structure import backbone, secondary_structures
from mlipaudit.analysis.superposition import superposed_rmsd
from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks.folding_stability.schemas import (
    FoldingStabilityMoleculeResult,
    FoldingStabilityResult,
)
from mlipaudit.families.proteins import (
    Answer,
    Protein,
    ProteinBenchmark,
    ProteinDynamics,
    ProteinsModelOutput,
    answers,
    proton_warnings,
)
from mlipaudit.scoring import Interval, block_bootstrap, interval_of, score_systems
from mlipaudit.views import Axis, Curves

__all__ = [
    "FoldingStabilityBenchmark",
    "FoldingStabilityModelOutput",
    "FoldingStabilityMoleculeResult",
    "FoldingStabilityResult",
]

FoldingStabilityModelOutput = ProteinsModelOutput


class FoldingStabilityBenchmark(ProteinBenchmark):
    """Do small proteins keep their fold?"""

    name = "folding_stability"
    result_class = FoldingStabilityResult
    views = (
        Curves(
            "Distance from the reference structure",
            y=Axis("rmsd_all_frames", "RMSD of the Cα", "Å"),
            caption="After the best superposition; a protein that unfolds leaves the values of its vibrations.",
        ),
        Curves(
            "Similarity of the fold",
            y=Axis("tm_score_trajectory", "TM-score"),
            index="frame that scores",
            caption="1 for the reference structure itself; below 0.5 the fold is another one.",
        ),
        Curves(
            "Radius of gyration",
            y=Axis("radius_of_gyration_deviation", "change of the radius of gyration", "Å"),
            index="frame that scores",
        ),
        Curves(
            "Secondary structure",
            y=Axis("match_secondary_structure", "share of residues as in the reference"),
            index="frame that scores",
        ),
    )

    @classmethod
    def judge(
        cls, output: ProteinsModelOutput, reference: Mapping[str, Protein], protocol: ProteinDynamics
    ) -> FoldingStabilityResult:
        """How far every protein that stayed whole is from its reference structure, and the score."""
        judged = list(answers(output, reference, protocol))
        entries = [_judge_protein(answer, protocol) for answer in judged]
        return FoldingStabilityResult(
            molecules=entries,
            avg_rmsd=_over(np.mean, (e.avg_rmsd for e in entries)),
            min_rmsd=_over(np.min, (e.avg_rmsd for e in entries)),
            avg_tm_score=_over(np.mean, (e.avg_tm_score for e in entries)),
            max_tm_score=_over(np.max, (e.avg_tm_score for e in entries)),
            avg_match=_over(np.mean, (e.avg_match for e in entries)),
            max_abs_deviation_radius_of_gyration=_over(
                np.max, (e.max_abs_deviation_radius_of_gyration for e in entries)
            ),
            failures={entry.structure_name: entry.failure for entry in entries if entry.failure},
            warnings=proton_warnings(judged),
            **BenchmarkResult.fields_of(score_systems(entries)),
        )


def _over(statistic: Any, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(statistic(known)) if known else None


def _judge_protein(answer: Answer, protocol: ProteinDynamics) -> FoldingStabilityMoleculeResult:
    if answer.failure:
        return FoldingStabilityMoleculeResult(structure_name=answer.name, failed=True, failure=answer.failure)
    carbons, folded = answer.protein.alpha_carbons, answer.protein.folded
    frames = answer.positions[:, carbons]
    rmsds = np.array([superposed_rmsd(frame, folded[carbons]) for frame in frames])
    tm_scores = np.array([tm_score(frame, folded[carbons]) for frame in protocol.scored(frames)])
    return FoldingStabilityMoleculeResult(
        structure_name=answer.name,
        rmsd_trajectory=protocol.scored(rmsds).tolist(),
        avg_rmsd=float(protocol.scored(rmsds).mean()),
        rmsd_all_frames=rmsds.tolist(),
        avg_rmsd_interval=_interval_over_time(rmsds),
        tm_score_trajectory=tm_scores.tolist(),
        avg_tm_score=float(tm_scores.mean()),
        **_size(answer, protocol),
        **_structure(answer, protocol),
    )


def _size(answer: Answer, protocol: ProteinDynamics) -> dict[str, Any]:
    """Fields about the radius of gyration."""
    masses = answer.protein.atoms.get_masses()[answer.protein.solute]
    radii = radii_of_gyration(answer.positions, masses)
    scored = protocol.scored(radii)
    deviations = scored - scored[0]
    return {
        "radius_of_gyration_deviation": deviations.tolist(),
        "radius_of_gyration_fluctuation": float(scored.std()),
        "max_abs_deviation_radius_of_gyration": float(np.abs(deviations).max()),
        "avg_radius_of_gyration": float(scored.mean()),
        "avg_radius_of_gyration_interval": _interval_over_time(radii),
        "reference_radius_of_gyration": float(radii_of_gyration(answer.protein.folded[None], masses)[0]),
    }


def _structure(answer: Answer, protocol: ProteinDynamics) -> dict[str, Any]:
    """Fields about secondary structure. Residues without a whole backbone, such as caps, have none and do not count."""
    residues, folded = answer.protein.residues, answer.protein.folded[None]
    counted = np.isfinite(backbone(residues, folded)[0]).all(axis=(1, 2))
    (expected,) = secondary_structures(residues, folded)
    found = secondary_structures(residues, answer.positions)
    matches = np.array([_match(letters, expected, counted) for letters in found])
    scored = protocol.scored(matches)
    return {
        "match_secondary_structure": scored.tolist(),
        "avg_match": float(scored.mean()),
        "avg_match_interval": _interval_over_time(matches),
        "secondary_structure": protocol.scored(found),
        "reference_secondary_structure": expected,
    }


def _match(letters: str, expected: str, counted: np.ndarray) -> float:
    same = np.array([one == other for one, other in zip(letters, expected, strict=True)])
    return float(same[counted].mean()) if counted.any() else 0.0


def _interval_over_time(series: np.ndarray) -> Interval:
    return interval_of(block_bootstrap(series, lambda sample: float(np.mean(sample))))
