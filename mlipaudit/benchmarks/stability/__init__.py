# SPDX-License-Identifier: Apache-2.0
"""How long dynamics at 300 K hold together: small molecules, peptides and a protein, in vacuum and in water.

A structure scores 1 when it does to the end; one that explodes at frame f of F scores 0.5 f/F, one that loses a
hydrogen for good from frame f scores 0.5 + 0.5 f/F. Exploded is: not finite, far above the temperature, a bond
between heavy atoms of the solute broken for good, or a trajectory that ends early. A hydrogen is lost when no heavy
atom is within 2.5 Å. The bonds are those of the starting geometry; distances take the minimum image in a box.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks.stability.judgement import explosions, lost_hydrogens
from mlipaudit.benchmarks.stability.schemas import (
    StabilityModelOutput,
    StabilityResult,
    StabilityStructureResult,
)
from mlipaudit.failures import Failure
from mlipaudit.families.trajectories import (
    SimulationState,
    TrajectoryBenchmark,
    failures_of,
    first_systems,
    read_structure,
    states_of,
    system,
    unanswered,
)
from mlipaudit.protocol import MolecularDynamics, Trajectories
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import score_systems
from mlipaudit.views import Axis, Bars

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Trajectory

__all__ = [
    "StabilityBenchmark",
    "StabilityModelOutput",
    "StabilityResult",
    "StabilityStructureResult",
]

BOX_SIZES = {
    "Peptide_solvated": (23.43, 28.96, 20.90),
    "Peptide_solvated_ions": (25.62, 27.89, 37.36),
}
"""Å"""


class Structure(NamedTuple):
    """A structure of the set."""

    file: str
    description: str
    charge: int = 0


STRUCTURES = {
    "Small_molecule_HCNO": Structure("small_molecule_HCNO.xyz", "Small molecule (H, C, N, O)"),
    "Small_molecule_Sulfur": Structure("small_molecule_S.xyz", "Small molecule with sulfur"),
    "Small_molecule_Halogen": Structure("small_molecule_Hal.xyz", "Small molecule with halogens"),
    "Peptide_HCNO": Structure("peptide_HCNO.xyz", "Neurotensin in vacuum (PDB: 2LNF)", charge=1),
    "Peptide_cys": Structure("peptide_cys.xyz", "Oxytocin, with cysteines, in vacuum (PDB: 7OFG)"),
    "Protein": Structure("protein_1a7m.xyz", "Protein in vacuum (PDB: 1A7M)", charge=7),
    "Peptide_solvated": Structure("peptide_solv.xyz", "Oxytocin in water (PDB: 7OFG)"),
    "Peptide_solvated_ions": Structure("peptide_solv_ion.xyz", "Neurotensin in water with ions (PDB: 2LNF)"),
}
"""Those of mlipaudit 0.1.8. An edition may have a part of them."""


class StabilityBenchmark(TrajectoryBenchmark):
    """Do molecules hold together in long dynamics?"""

    name = "stability"
    category = "General"
    result_class = StabilityResult
    model_output_class = StabilityModelOutput
    required_elements = {"N", "H", "O", "S", "C", "Cl", "F"}
    views = (
        Bars(
            "How long each structure held together",
            value=Axis("score", "score"),
            of_result=False,
            caption="1 when nothing happened to it, less the earlier something did.",
        ),
        Bars(
            "Frames of each structure",
            value=Axis("num_frames", "frames with an answer"),
            of_result=False,
            reference="num_expected_frames",
            caption="Dynamics that end early have fewer than the protocol asks for.",
        ),
    )
    protocols = {
        RunMode.DEV: Trajectories(MolecularDynamics(10, 1, 10), max_systems=2),
        # The published one is as long in `fast` as in `standard`: 100 ps of each of five structures.
        RunMode.FAST: Trajectories(MolecularDynamics(5_000, 10, 1000), max_systems=5),
        RunMode.STANDARD: Trajectories(MolecularDynamics(100_000, 100, 1000)),
    }

    @classmethod
    def load(cls, data_dir: Path, protocol: Trajectories) -> dict[str, Atoms]:
        """Those of the table's first structures whose files are there."""
        return {
            name: system(read_structure(data_dir / s.file), s.charge, BOX_SIZES.get(name))
            for name, s in first_systems(STRUCTURES, protocol).items()
            if (data_dir / s.file).is_file()
        }

    @classmethod
    def systems(cls, reference: dict[str, Atoms]) -> dict[str, Atoms]:
        """The structures themselves."""
        return reference

    def collect(
        self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]
    ) -> StabilityModelOutput:
        """Frames by structure, also of those that ended early."""
        states = states_of(outcomes, systems)
        return StabilityModelOutput(
            structure_names=list(states),
            simulation_states=list(states.values()),
            failures=failures_of(outcomes),
        )

    @classmethod
    def judge(
        cls, output: StabilityModelOutput, reference: Mapping[str, Atoms], protocol: Trajectories
    ) -> StabilityResult:
        """When something happened to each structure, and the score."""
        answers = zip(output.structure_names, output.simulation_states, strict=True)
        entries = [
            _judge_structure(name, state, reference[name], protocol.md, output.failures) for name, state in answers
        ]
        return StabilityResult(
            structure_results=entries,
            num_stable=sum(e.exploded_frame == e.drift_frame == -1 for e in entries),
            failures={entry.structure_name: entry.failure for entry in entries if entry.failure},
            **BenchmarkResult.fields_of(score_systems(entries)),
        )


def _judge_structure(
    name: str,
    state: SimulationState | None,
    start: Atoms,
    md: MolecularDynamics,
    failures: Mapping[str, Failure],
) -> StabilityStructureResult:
    fields: dict[str, Any] = {
        "structure_name": name,
        "description": STRUCTURES[name].description,
        "num_expected_frames": md.num_frames,
        "num_steps": md.num_steps,
    }
    if state is None or not state.num_frames:
        return StabilityStructureResult(**fields, failed=True, failure=unanswered(name, failures))
    fields["num_frames"] = state.num_frames
    reasons = list(explosions(state, start, md, failures.get(name)))
    if reasons:
        first = min(reasons, key=lambda reason: reason.frame or 0)
        frame = first.frame or 0
        score = 0.5 * min(frame / md.num_frames, 1.0)
        return StabilityStructureResult(**fields, failure=first, exploded_frame=frame, drift_frame=-1, score=score)
    left, lost = lost_hydrogens(state, start)
    score = 0.5 + 0.5 * min(left / md.num_frames, 1.0) if lost else 1.0
    return StabilityStructureResult(
        **fields, exploded_frame=-1, drift_frame=left if lost else -1, lost_hydrogens=lost, score=score
    )
