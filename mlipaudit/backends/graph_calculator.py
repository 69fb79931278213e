# SPDX-License-Identifier: Apache-2.0
"""An mlip force field as an ASE calculator, for dynamics through ASE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes

from mlipaudit.backends.jax_batching import Shape, Structure, exact_shape, pack
from mlipaudit.failures import NeighbourOverflowError

if TYPE_CHECKING:
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

MAX_GROWTHS = 6


def grown(needed: int, *, growths: int) -> int:
    """Next capacity of a neighbour list that has overflowed.

    Raises:
        NeighbourOverflowError: it has grown `MAX_GROWTHS` times before.
    """
    if growths > MAX_GROWTHS:
        raise NeighbourOverflowError(f"the neighbour list grew {growths} times, now to {needed} pairs")
    # Every spare pair costs as much as a real one, and every growth a compilation: little at first, more from then on.
    return -(-(int((1.05 if growths == 1 else 1.25) * needed) + 8) // 8) * 8


def with_spare_pairs(structure: Structure, *, growths: int = 1) -> Shape:
    """Capacity for a structure that is going to move.

    Raises:
        NeighbourOverflowError: see `grown`.
    """
    long_range = None if structure.long_range is None else grown(len(structure.long_range), growths=growths)
    return Shape(
        atoms=len(structure.atoms) + 1,
        edges=grown(len(structure.edges), growths=growths),
        graphs=2,
        long_range_edges=long_range,
        periodic=structure.periodic,
    )


class GraphCalculator(Calculator):
    """Evaluates the compiled model on fresh neighbour lists, whose capacity grows a bounded number of times."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, backend: ForceFieldBackend) -> None:
        super().__init__()
        self._backend = backend
        self._shape: Shape | None = None
        self._growths = 0

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | None = None,
        system_changes: list[str] = all_changes,
    ) -> None:
        """Energy (eV) and forces (eV/Å) of one structure.

        Raises:
            NeighbourOverflowError: see `grown`.
        """
        super().calculate(atoms, properties, system_changes)
        structure = self._backend.structure(self.atoms)
        shape = self._fitting(structure)
        graph = pack([structure], shape)
        program, _ = self._backend.compiled(graph, shape)
        answers = jax.device_get(program(self._backend.params, graph))
        energy = answers["node_energy"] if "node_energy" in answers else np.atleast_1d(answers["energy"])[:1]
        own = float(np.asarray(energy, np.float64).reshape(-1)[: len(self.atoms)].sum())
        self.results = {
            "energy": own + self._backend.energy_of_atoms(self.atoms.numbers),
            "forces": np.asarray(answers["forces"][: len(self.atoms)], np.float64),
        }

    def _fitting(self, structure: Structure) -> Shape:
        needed = exact_shape(structure)
        known = self._shape
        if (
            known is None
            or needed.edges > known.edges
            or (needed.long_range_edges or 0) > (known.long_range_edges or 0)
        ):
            self._growths += 1
            known = self._shape = with_spare_pairs(structure, growths=self._growths)
        return known
