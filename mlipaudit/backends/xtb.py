# SPDX-License-Identifier: Apache-2.0
"""The semi-empirical models GFN1-xTB and GFN2-xTB (extra `xtb`, tblite)."""

from __future__ import annotations

import os
from typing import Any

from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes

from mlipaudit.errors import ModelLoadError


class XTBCalculator(Calculator):
    """Wraps tblite's calculator so that total charge and multiplicity of each structure reach it.

    tblite takes them as parameters; ours come with the structure, in `atoms.info`.
    """

    implemented_properties = ["energy", "forces"]
    allowed_atomic_numbers = frozenset(range(1, 87))

    def __init__(self, method: str, **options: Any) -> None:
        super().__init__()
        self.method, self.options = method, options
        self._inner = self._make(charge=0, multiplicity=1)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: list[str] | None = None,
        system_changes: list[str] = all_changes,
    ) -> None:
        """Energy (eV) and forces (eV/Å) of one structure."""
        super().calculate(atoms, properties, system_changes)
        charge = self.atoms.info.get("charge", 0)
        multiplicity = int(self.atoms.info.get("spin", 1))
        if (charge, multiplicity) != (self._inner.parameters.charge, self._inner.parameters.multiplicity):
            self._inner = self._make(charge=charge, multiplicity=multiplicity)
        self._inner.calculate(self.atoms, ["energy", "forces"], all_changes)
        self.results = {name: self._inner.results[name] for name in self.implemented_properties}

    def _make(self, *, charge: float, multiplicity: int) -> Any:
        from tblite.ase import TBLite

        return TBLite(method=self.method, charge=charge, multiplicity=multiplicity, verbosity=0, **self.options)


def gfn2_xtb(**options: Any) -> XTBCalculator:
    """GFN2-xTB, all elements up to radon (10.1021/acs.jctc.8b01176); needs the extra `xtb`."""
    return _load("GFN2-xTB", options)


def gfn1_xtb(**options: Any) -> XTBCalculator:
    """GFN1-xTB, all elements up to radon (10.1021/acs.jctc.7b00118); needs the extra `xtb`."""
    return _load("GFN1-xTB", options)


def _load(method: str, options: dict[str, Any]) -> XTBCalculator:
    # Threads make molecules of this size five times slower; read when tblite is first imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        return XTBCalculator(method, **options)
    except ImportError as error:
        raise ModelLoadError(f"{method} needs tblite: pip install 'mlipaudit[xtb]' ({error})") from error
