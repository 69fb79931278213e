"""The error of the torque on a molecule, and a transform that takes its drift away."""

import numpy as np
from mlipaudit import DatasetMetric


def torque(atoms, forces):
    """eV, about the centre of mass."""
    return np.cross(atoms.positions - atoms.get_center_of_mass(), forces).sum(axis=0)


class TorqueError(DatasetMetric):
    """Mean length of the difference between predicted and labelled torque."""

    unit = "eV"
    direction = "lower"
    needs = ("forces",)

    def reset(self):
        """Forget all systems."""
        self.errors = []

    def update(self, prediction, reference):
        """Take one system in."""
        error = torque(prediction.atoms, prediction.forces) - torque(reference.atoms, reference.forces)
        self.errors.append(float(np.linalg.norm(error)))

    def compute(self):
        """The mean over the systems."""
        return np.mean(self.errors)

    def state(self):
        """The lengths, which is all that the mean needs."""
        return self.errors

    def merge(self, state):
        """Take in other systems' lengths."""
        self.errors += state


def centred(atoms):
    """Put the centre of mass at the origin."""
    atoms.positions -= atoms.get_center_of_mass()
    return atoms


centred.stage = "preprocessor"
