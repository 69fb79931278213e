# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "openmm"]
# ///
"""Make the embedded box of water, smaller than the public one; the experimental curve is copied.

    python benchmarks_data/make_water_radial_distribution.py SOURCE

SOURCE holds `experimental_reference.npz` as in the archive of the public dataset InstaDeepAI/MLIPAudit-data.
"""

import sys
from importlib.metadata import version
from pathlib import Path

import liquids
import manifests
import numpy as np
from openmm import app

NAME = "water_radial_distribution"
STEM = "water_box_n500"
"""The file name is the hub's; the number is not ours."""

CELLS = 4
COUNT = CELLS**3
TEMPERATURE = 295.15
DENSITY = 0.997773
"""In g/cm³, the reference of `water_density`."""
MASS = 18.01528

# The geometry of TIP4P-Ew, which is that of the molecule in the gas phase: 0.9572 Å and 104.52°.
WATER = liquids.Molecule(
    residue="HOH",
    names=("O", "H1", "H2"),
    numbers=(8, 1, 1),
    positions=np.array([[0.0, 0.0, 0.0], [0.9572, 0.0, 0.0], [-0.239987, 0.926627, 0.0]]),
    bonds=((0, 1), (0, 2)),
    record="HETATM",
)

DESCRIPTION = """\
{count} water molecules ({atoms} atoms) in a cubic box of {box:.3f} Å, an equilibrated start, and the experimental O-O pair distribution function,
the hub's file unchanged (2000 points, `r_OO` in Å, `g_OO` without unit).
THE BOX IS OURS AND SMALLER: the hub's file of the same name has 501 molecules (1503 atoms, 24.772 Å), this one {count}, whatever its name
says, so that a laptop can run it. Half its length is {half:.2f} Å: beyond that there is no pair distribution function, while the hub's
score compares up to 10 Å; the periodic images order the second and third shells, and density fluctuates more. RESULTS ARE NOT COMPARABLE WITH THE HUB'S.
The box was made at constant volume with {model} (rigid, gas-phase geometry), {time:.0f} ps at {temperature} K from a lattice of randomly turned
molecules, at the experimental density {density} g/cm3: a run too short to change its volume shows the right density whatever the model,
and the first picoseconds of any run remember the rigid model. In the second half of that run g_OO had its peak at {at:.2f} Å with a height of {height:.2f} (bins of 0.1 Å);
in the experimental file it is at {expected:.2f} Å with {expected_height:.2f}. In the one frame that is here, atoms of two molecules are at least {oo:.2f} Å (O-O) and {oh:.2f} Å (O-H)
apart. Molecules are whole: some atoms lie a little outside the box. `{stem}_molecule_indices.npy` has the molecule of each atom (int64)."""


def simulated(box: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """The last positions without the virtual sites, and the oxygens of the frames."""
    topology = app.Topology()
    chain = topology.addChain()
    for _ in range(COUNT):
        add_molecule(topology, chain=chain)
    topology.setUnitCellDimensions([box / 10] * 3)
    system = app.ForceField("tip4pew.xml").createSystem(
        topology, nonbondedMethod=app.PME, nonbondedCutoff=0.6, rigidWater=True
    )
    start = liquids.filled(WATER, points=liquids.lattice(CELLS, basis=[(0.0, 0.0, 0.0)], box=box))
    sites = np.concatenate([start.reshape(-1, 3, 3), start.reshape(-1, 3, 3)[:, :1]], axis=1)
    last, frames = liquids.equilibrated(system, sites.reshape(-1, 3), box=box, temperature=TEMPERATURE)
    return last.reshape(-1, 4, 3)[:, :3].reshape(-1, 3), [frame[::4] for frame in frames]


def add_molecule(topology: app.Topology, *, chain: app.topology.Chain) -> None:
    """A molecule with the virtual site that carries the charge of its oxygen."""
    residue = topology.addResidue("HOH", chain)
    elements = (app.element.oxygen, app.element.hydrogen, app.element.hydrogen, None)
    o, *hydrogens, _ = (
        topology.addAtom(name, element, residue)
        for name, element in zip(("O", "H1", "H2", "M"), elements, strict=True)
    )
    for hydrogen in hydrogens:
        topology.addBond(o, hydrogen)


def main(source: Path) -> None:
    """Write the box, the molecules, the curve and the manifest."""
    box = liquids.edge(COUNT, density=DENSITY, mass=MASS)
    last, oxygens = simulated(box)
    atoms = liquids.checked(liquids.boxed(WATER, last, box=box), molecule=WATER)
    at, height = liquids.peak(oxygens, box=box, between=(2.0, 6.0))
    experiment = np.load(source / "experimental_reference.npz")
    apart = liquids.closest(atoms, size=3)
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files={
            f"{STEM}_eq.pdb": liquids.pdb_text(atoms, molecule=WATER).encode(),
            f"{STEM}_molecule_indices.npy": liquids.indices(COUNT, size=3),
            "experimental_reference.npz": (source / "experimental_reference.npz").read_bytes(),
        },
        title=f"A small box of {COUNT} waters and the experimental O-O pair distribution function",
        description=DESCRIPTION.format(
            count=COUNT,
            atoms=len(atoms),
            box=atoms.cell[0, 0],
            half=atoms.cell[0, 0] / 2,
            model="TIP4P-Ew",
            time=liquids.TIMESTEPS * liquids.STEP / 1000,
            temperature=TEMPERATURE,
            density=DENSITY,
            at=at,
            height=height,
            expected=experiment["r_OO"][experiment["g_OO"].argmax()],
            expected_height=experiment["g_OO"].max(),
            oo=apart[""],
            oh=apart["H"],
            stem=STEM,
        ),
        licence="CC0-1.0 for the box and this manifest, experimental numbers as facts; the public dataset states its own terms",
        source=f"The box: computed for this project with OpenMM {version('openmm')} (TIP4P-Ew parameters as it ships them). experimental_reference.npz: the public dataset InstaDeepAI/MLIPAudit-data (Hugging Face), after Skinner et al. 2013.",
        doi={
            "10.1063/1.4790861": "the experimental curve, X-ray diffraction",
            "10.1063/1.1683075": "TIP4P-Ew",
        },
        level=f"equilibrated with TIP4P-Ew at {TEMPERATURE} K and constant volume; the reference is experiment",
        elements=atoms.symbols,
        units={"coordinates": "angstrom", "r_OO": "angstrom", "g_OO": "dimensionless"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
