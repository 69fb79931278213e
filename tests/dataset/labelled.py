# SPDX-License-Identifier: Apache-2.0
"""Labelled frames for tests: what the toy says, plus noise, of 1 to 60 atoms; some without forces, one with NaN."""

import json

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.lj import LennardJones
from ase.calculators.singlepoint import SinglePointCalculator

from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.dataset import DatasetBenchmark

OFFSETS = {"H": -13.5, "C": -1029.25, "N": -1485.5, "O": -2042.125}
WITHOUT_FORCES, NAN_ENERGY, NAN_FORCE, UNLABELLED = 7, 33, 20, 5


def structure(rng, size):
    """Random atoms that do not collide too much."""
    side = (15 * size) ** (1 / 3) + 1
    return Atoms(rng.choice(list(OFFSETS), size), positions=rng.uniform(0, side, (size, 3)))


def labelled(atoms, **results):
    """A copy with labels where ase keeps them."""
    copy = atoms.copy()
    copy.info.update(atoms.info)
    copy.calc = SinglePointCalculator(copy, **results)
    return copy


def make_frames(count=80, *, seed=0, noise=0.1, holes=True):
    """Frames of every kind; without `holes` all of them have all labels."""
    rng, toy, frames = np.random.default_rng(seed), ToyCalculator(), []
    for index in range(count):
        atoms = structure(rng, int(rng.integers(1, 61)))
        atoms.info["family"] = ("odd", "even")[index % 2]
        atoms.calc = toy
        energy = atoms.get_potential_energy() + noise * rng.normal() * len(atoms)
        forces = atoms.get_forces() + noise * rng.normal(size=(len(atoms), 3))
        labels = {"energy": energy, "forces": forces}
        if holes:
            if index % WITHOUT_FORCES == 0:
                del labels["forces"]
            if index == NAN_ENERGY:
                labels["energy"] = np.nan
            if index == NAN_FORCE:
                labels["forces"][0, 1] = np.nan
            if index == UNLABELLED:
                labels = {}
        frames.append(labelled(atoms, **labels))
    return frames


def crystals(count=6, *, seed=1):
    """Periodic argon with energy, forces and stress of a Lennard-Jones potential, and that potential."""
    from ase.build import bulk

    potential = LennardJones(sigma=3.4, epsilon=0.0104, rc=8.0)
    frames = []
    for index in range(count):
        atoms = bulk("Ar", "fcc", a=5.2 + 0.05 * index, cubic=True)
        atoms.rattle(0.1, seed=seed + index)
        atoms.calc = potential
        frames.append(
            labelled(
                atoms,
                energy=atoms.get_potential_energy(),
                forces=atoms.get_forces(),
                stress=atoms.get_stress(voigt=True),
            )
        )
    return frames, potential


class Oracle(Calculator):
    """Answers with the labels of the frames it was made with, and the sum of its charges as a dipole."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, frames):
        super().__init__()
        self.known = {frame.positions.tobytes(): frame.calc.results for frame in frames}

    def calculate(self, atoms=None, properties=None, system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        labels = self.known[atoms.positions.tobytes()]
        labels = {what: np.nan_to_num(label) for what, label in labels.items()}
        self.results = {"forces": np.zeros((len(atoms), 3)), "energy": 0.0, **labels}


class Reader(ToyCalculator):
    """The toy, which also gives the sum of positions as a dipole."""

    implemented_properties = [*ToyCalculator.implemented_properties, "dipole"]

    def calculate(self, *arguments, **keywords):
        super().calculate(*arguments, **keywords)
        self.results["dipole"] = self.atoms.positions.sum(axis=0)


def score(frames, force_field=None, **arguments):
    """The result of a data set, as an object."""
    benchmark = DatasetBenchmark(force_field or ToyCalculator(), frames, **arguments)
    benchmark.run_model()
    return benchmark.analyze()


def plain(result):
    """A result as JSON content."""
    return json.loads(result.model_dump_json())
