# SPDX-License-Identifier: Apache-2.0
"""An mlip force field as an ASE calculator, for dynamics through ASE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes

from mlipaudit.backends.jax_batching import Shape, pack
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


class GraphCalculator(Calculator):
    """Evaluates the compiled model on fresh neighbour lists, whose capacity grows a bounded number of times."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, backend: ForceFieldBackend) -> None:
        super().__init__()
        self._backend = backend
        self._program = backend.program(forces=True)
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
        long_range = None if structure.long_range is None else len(structure.long_range)
        self._shape = self._fitting(len(structure.edges), long_range)
        answers = jax.device_get(self._program(self._backend.params, pack([structure], self._shape)))
        energy = answers["node_energy"] if "node_energy" in answers else np.atleast_1d(answers["energy"])[:1]
        own = float(np.asarray(energy, np.float64).reshape(-1)[: len(self.atoms)].sum())
        self.results = {
            "energy": own + self._backend.energy_of_atoms(self.atoms.numbers),
            "forces": np.asarray(answers["forces"][: len(self.atoms)], np.float64),
        }

    def _fitting(self, edges: int, long_range: int | None) -> Shape:
        shape = self._shape
        if shape and edges <= shape.edges and (long_range or 0) <= (shape.long_range_edges or 0):
            return shape
        self._growths += 1
        return Shape(
            atoms=len(self.atoms) + 1,
            edges=grown(edges, growths=self._growths),
            graphs=2,
            long_range_edges=None if long_range is None else grown(long_range, growths=self._growths),
            periodic=bool(self.atoms.pbc.any()),
        )
