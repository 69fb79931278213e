# SPDX-License-Identifier: Apache-2.0
"""From frames of a protein to the share of its dihedral angles that no known structure has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mlipaudit.analysis.dihedral_distributions import (
    excess_rate,
    hellinger_distance,
    histogram_rmsd,
    outliers,
)
from mlipaudit.analysis.dihedrals import (
    SIDE_CHAINS,
    amino_acid,
    backbone_atoms,
    dihedral_angles,
    side_chain_atoms,
)
from mlipaudit.analysis.topology import Residue
from mlipaudit.benchmarks.sampling.schemas import Rates, SamplingSystemResult
from mlipaudit.families.proteins import Answer, ProteinDynamics
from mlipaudit.scoring import (
    NUM_RESAMPLES,
    Interval,
    block_bootstrap,
    compute_benchmark_score,
    interval_of,
)

THRESHOLDS = {"backbone": 0.1, "sidechain": 0.03}
"""Of the outlier ratios (mlipaudit 0.1.8, arXiv:2511.20487)."""
KINDS = tuple(THRESHOLDS)
BACKBONE_CLASSES = {"GLY": "GLY", "ILE": "ILE_VAL", "VAL": "ILE_VAL", "PRO": "PRO"}
GENERAL = "GENERAL"


class References(NamedTuple):
    """Reference points by type of residue, [n, angles] in degrees."""

    backbone: Mapping[str, np.ndarray]
    """By class of residues."""
    sidechain: Mapping[str, np.ndarray]

    def has(self, kind: str, residue: str) -> bool:
        """Whether there are any to compare a residue with."""
        return self._class_of(kind, residue) in getattr(self, kind)

    def points(self, kind: str, residue: str) -> np.ndarray:
        """Those to compare a residue with."""
        return getattr(self, kind)[self._class_of(kind, residue)]

    def _class_of(self, kind: str, residue: str) -> str:
        return BACKBONE_CLASSES.get(residue, GENERAL) if kind == "backbone" else residue


class Angles(NamedTuple):
    """Sampled angles of one protein, and what was left out."""

    backbone: dict[str, np.ndarray]
    """Type of residue -> degrees, [frames, residues of the type, angles]."""
    sidechain: dict[str, np.ndarray]
    left_out: tuple[str, ...]


def sampled_angles(residues: Sequence[Residue], positions: np.ndarray, references: References) -> Angles:
    """Angles of all residues but those at the ends of a chain, of positions [frames, atoms, 3]."""
    found: dict[str, dict[str, list[np.ndarray]]] = {kind: {} for kind in KINDS}
    left_out = []
    for place, backbone in backbone_atoms(residues).items():
        residue = residues[place]
        name = amino_acid(residue.name)
        if name is None:
            left_out.append(f"{residue.name}{residue.number} is none of the twenty amino acids")
            continue
        for kind, atoms in (("backbone", backbone), ("sidechain", side_chain_atoms(residue))):
            expected = 2 if kind == "backbone" else len(SIDE_CHAINS[name].split())
            if expected and not references.has(kind, name):
                left_out.append(f"{residue.name}{residue.number}: no reference points for its {kind}")
            elif len(atoms) < expected:
                left_out.append(f"{residue.name}{residue.number}: its side chain lacks atoms")
            elif expected:
                found[kind].setdefault(name, []).append(dihedral_angles(positions, list(atoms.values())))
    backbones, side_chains = ({n: np.stack(a, axis=1) for n, a in found[kind].items()} for kind in KINDS)
    return Angles(backbones, side_chains, tuple(left_out))


def judge_protein(
    answer: Answer, references: References, protocol: ProteinDynamics
) -> tuple[SamplingSystemResult, tuple[str, ...]]:
    """The numbers of one protein, and what was left out."""
    if answer.failure:
        return SamplingSystemResult(structure_name=answer.name, failed=True, failure=answer.failure), ()
    angles = sampled_angles(answer.protein.residues, answer.positions, references)
    fields: dict[str, Any] = {}
    for kind, sampled in zip(KINDS, (angles.backbone, angles.sidechain), strict=True):
        fields |= _compare(kind, sampled, references, protocol)
    entry = SamplingSystemResult(structure_name=answer.name, **fields)
    return entry.model_copy(update={"score": pooled_score([entry])}), angles.left_out


def _compare(
    kind: str, sampled: Mapping[str, np.ndarray], references: References, protocol: ProteinDynamics
) -> dict[str, Any]:
    """Fields of one kind of angles, from type of residue -> [frames, residues of the type, angles]."""
    ratios, rmsds, hellingers, series = {}, {}, {}, []
    for name, every in sampled.items():
        points = references.points(kind, name)
        scored = _rows(protocol.scored(every))
        far = outliers(_rows(every), points).reshape(every.shape[:2])
        ratios[name] = float(protocol.scored(far).mean())
        rmsds[name] = histogram_rmsd(scored, points)
        hellingers[name] = hellinger_distance(scored, points)
        series.append(far.mean(axis=1))
    return {
        f"outliers_ratio_{kind}_dihedrals": ratios,
        f"rmsd_{kind}_dihedrals": rmsds,
        f"hellinger_distance_{kind}_dihedrals": hellingers,
        f"outliers_ratio_{kind}_interval": _interval_over_time(series),
    }


def _rows(angles: np.ndarray) -> np.ndarray:
    return angles.reshape(-1, angles.shape[-1])


def _interval_over_time(rates: Sequence[np.ndarray]) -> Interval | None:
    """Of the mean over residue types, from one series [frames] of each."""
    if not rates:
        return None
    return interval_of(block_bootstrap(np.mean(rates, axis=0), lambda sample: float(np.mean(sample))))


# Over proteins


def mean_rates(entries: Iterable[SamplingSystemResult], field: str) -> Rates:
    """Mean over proteins of what each has for a type of residue, in alphabetical order."""
    values: dict[str, list[float]] = {}
    for entry in entries:
        for name, value in (getattr(entry, field) or {}).items():
            values.setdefault(name, []).append(value)
    return {name: float(np.mean(values[name])) for name in sorted(values)}


def score_of(rates: Mapping[str, Iterable[float]]) -> float:
    """Score of outlier ratios by kind: mean over kinds, where there are any, of the mean over residue types."""
    known = {kind: list(values) for kind, values in rates.items()}
    kinds = [kind for kind in KINDS if known[kind]]
    return compute_benchmark_score([known[k] for k in kinds], [THRESHOLDS[k] for k in kinds]) if kinds else 0.0


def pooled_score(entries: Sequence[SamplingSystemResult]) -> float:
    """As published, ratios averaged over proteins before they are scored; a protein that failed counts 0."""
    alive = [entry for entry in entries if not entry.failed]
    rates = {kind: mean_rates(alive, f"outliers_ratio_{kind}_dihedrals").values() for kind in KINDS}
    return score_of(rates) * len(alive) / len(entries) if alive else 0.0


def pooled_interval(entries: Sequence[SamplingSystemResult], *, seed: int = 0) -> Interval | None:
    """95 % interval of `pooled_score`: bootstrap over proteins; None below two of them."""
    if len(entries) < 2:
        return None
    score = cache(lambda drawn: pooled_score([entries[i] for i in drawn]))
    draws = np.random.default_rng(seed).integers(0, len(entries), (NUM_RESAMPLES, len(entries)))
    return interval_of(np.array([score(tuple(sorted(draw))) for draw in draws.tolist()]))


def excess_rates(rates: Rates, null: Rates) -> dict[str, float | None]:
    """Outliers beyond the null rate of each type of residue."""
    return {name: excess_rate(rate, null[name]) for name, rate in rates.items()}
