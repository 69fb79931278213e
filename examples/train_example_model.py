# SPDX-License-Identifier: Apache-2.0
#
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "mlip==0.2.5",
#     "rdkit",
#     "gfnff==0.3.1",
#     "tblite==0.8.0",
#     "ase",
#     "numpy",
# ]
# ///
"""Train the example model of mlipaudit: a small MACE distilled from GFN2-xTB.

Three stages, each resumable, all of them writing into ``--workdir``:

    uv run examples/train_example_model.py data --workdir work
    uv run examples/train_example_model.py train --workdir work
    uv run examples/train_example_model.py evaluate --workdir work

``data`` samples geometries with GFN-FF and labels them with GFN2-xTB, one file per
system. ``train`` writes ``example_model.zip``. ``evaluate`` measures that file on
trajectories it has not seen and writes ``evaluation.json``, the source of every number
in the model card (``README.md`` beside this script).
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.singlepoint import SinglePointCalculator
from ase.io import read, write

log = logging.getLogger("example_model")

MODEL_FILE = "example_model.zip"

SEED = 2026
"""Every random number of every stage derives from this one."""

# --------------------------------------------------------------------------------------
# What the model is taught
# --------------------------------------------------------------------------------------


def words(text: str) -> tuple[str, ...]:
    """The SMILES of a list written as a text."""
    return tuple(text.split())


MOLECULES = words("""
[H][H] C CC CCC CCCC CC(C)C C=C CC=C C=CC=C C#C CC#C C1CC1 C1CCCC1 C1CCCCC1
c1ccccc1 Cc1ccccc1 c1ccc2ccccc2c1
O CO CCO CC(C)O OCCO COC CCOC C1CCOC1 OO C=O CC=O CC(C)=O CCC=O O=CC=O OC=O CC(=O)O
COC=O CC(=O)OC CCC(=O)O OCC(=O)O O=C=O
N CN CCN CNC CN(C)C NCCN C1CCNC1 C1CCNCC1 C#N CC#N NC=O CC(N)=O CNC=O CC(=O)NC CN(C)C=O
NC(N)=O NC(N)=N NCC(=O)O C[C@H](N)C(=O)O
c1ccoc1 c1cc[nH]c1 c1c[nH]cn1 c1ccncc1 c1cncnc1 c1ccc2[nH]ccc2c1 c1ncc2[nH]cnc2n1
Oc1ccccc1 Nc1ccccc1 COc1ccccc1 OC(=O)c1ccccc1 CC(=O)Oc1ccccc1C(=O)O
O=c1cc[nH]c(=O)[nH]1 Nc1cc[nH]c(=O)n1
S CS CSC CCS CSSC c1ccsc1 CC(=O)S NC(C)=S CS(C)=O CS(C)(=O)=O CSCCC(N)C
""")
"""Alkanes to heteroaromatics: every functional group a small organic molecule needs."""

TAUTOMERS = words("""
O=c1cccc[nH]1 Oc1ccccn1 CC(=O)CC(C)=O CC(=O)/C=C(/C)O N=CO CC(=N)O C=CO CC(O)=C
CC=CO CN=CO Cc1c[nH]cn1 Cc1cnc[nH]1 Cc1cc[nH]n1 Cc1ccn[nH]1 c1cc[nH]n1 c1nnc[nH]1 c1nc[nH]n1
c1cn[nH]n1 O=c1cc[nH]cc1 Oc1ccncc1 O=CCC=O O=C/C=C/O CC=N C=CN CC(N)=C CC(C)=N
O=C1C=CCC=C1 NC=N CN=CN CNC=N CC(=S)N CC(S)=N Oc1ccnc(O)n1 N=c1cc[nH]c(=O)[nH]1 O=N/C=C/N ON=CC=N
ON=C CN=O
""")
"""Both partners of keto/enol, amide/imidic acid, pyridone/hydroxypyridine, azole pairs."""

PEPTIDES = words("""
CC(=O)NC(C)C(=O)NC CC(=O)NCC(=O)NC CC(=O)NC(C(C)C)C(=O)NC CC(=O)NC(CC(C)C)C(=O)NC
CC(=O)NC(C(C)CC)C(=O)NC CC(=O)NC(CO)C(=O)NC CC(=O)NC(C(C)O)C(=O)NC CC(=O)NC(CS)C(=O)NC
CC(=O)NC(CCSC)C(=O)NC CC(=O)NC(CC(N)=O)C(=O)NC CC(=O)NC(CCC(N)=O)C(=O)NC
CC(=O)NC(Cc1ccccc1)C(=O)NC CC(=O)NC(Cc1ccc(O)cc1)C(=O)NC CC(=O)N1CCCC1C(=O)NC
CC(=O)NC(Cc1c[nH]cn1)C(=O)NC CC(=O)NC(Cc1c[nH]c2ccccc12)C(=O)NC
CC(=O)NC(CC(=O)O)C(=O)NC CC(=O)NC(CCC(=O)O)C(=O)NC CC(=O)NC(CCCCN)C(=O)NC
CC(=O)NC(CCCNC(N)=N)C(=O)NC CC(=O)NC(C)C(=O)NC(C)C(=O)NC CC(=O)NCC(=O)NCC(=O)NC
CC(=O)N1CCCC1C(=O)NCC(=O)NC
""")
"""The capped amino acids, all side chains neutral, and a few dipeptides."""

CLUSTERS = words("""
O.O O.O.O O.O.O.O O.O.O.O.O.O O.O.O.O.O.O.O.O O.O.O.O.O.O.O.O.O.O
O.O.O.O.O.O.O.O.O.O.O.O O.O.O.O.O.O.O.O.O.O.O.O.O.O
CO.CO.CO CC#N.CC#N.CC#N CC(=O)NC.O.O CC(=O)NC.CC(=O)NC NC=O.O.O.O NC=O.NC=O
c1ccccc1.c1ccccc1 c1ccccc1.O CC(=O)O.CC(=O)O C.C CCC.CCC CO.O.O NCC(=O)O.O.O
CC(=O)NC(C)C(=O)NC.O.O.O c1c[nH]cn1.O.O CSC.O CS.CS S.O CN.O.O N.N.N Oc1ccccc1.O.O
O=c1cc[nH]c(=O)[nH]1.O.O c1ccncc1.O C=O.O.O
[NH3+]CC(=O)[O-].O.O.O.O C[NH3+].CC(=O)[O-].O.O NC(N)=[NH2+].CC(=O)[O-].O.O
C[NH3+].CC(=O)[O-] CC(=O)NC([CH2][NH3+])C(=O)NC.[O-]C=O
""")
"""Contacts. The last five are neutral ion pairs: a protein has charged side chains."""

UNSEEN = words("""
CCNCC CCC(C)O Cn1cccc1 c1cscn1 CCOC(C)=O Cc1ccccn1 CCCS CC(=O)NC(C)C(=O)NCC(=O)NC
NC(=O)CC(N)=O CO.CC(C)=O O.O.O.O.O
""")
"""Not trained on at all: what the model does with a molecule it has never met."""

CLOSE_PAIRS = words("""
O.O C.C C.O N.O CO.CO C=O.O CC#N.O c1ccccc1.O S.O CS.CO N.C NC=O.NC=O C=C.O [H][H].O
OC=O.N c1ccoc1.C CSC.C S.S
""")
"""Pairs labelled from the repulsive wall to separation, without any sampling."""


@dataclass(frozen=True)
class Trajectory:
    """How one conformer is sampled."""

    temperature: float
    """Kelvin."""
    frames: int


MOLECULE_TRAJECTORIES = tuple(Trajectory(t, 14) for t in (300.0, 500.0, 800.0, 300.0))
CLUSTER_TRAJECTORIES = tuple(Trajectory(t, 20) for t in (200.0, 300.0, 300.0, 400.0))

STRAINED_PER_TRAJECTORY = 2
CLOSE_PAIR_FRAMES = 20
MAX_FORCE_SAMPLED = 15.0
"""eV/Å. Above it GFN-FF has walked to where GFN2 would not go."""
MAX_FORCE_STRAINED = 30.0
"""eV/Å. Squeezed frames are there to teach the wall, not the nucleus."""

# --------------------------------------------------------------------------------------
# Stage 1: data
# --------------------------------------------------------------------------------------


def system_rng(name: str, *, purpose: int = 0) -> np.random.Generator:
    """Generator of one system: adding a system leaves the others as they were."""
    return np.random.default_rng([SEED, zlib.crc32(name.encode()), purpose])


def embed(smiles: str, *, seed: int) -> Atoms:
    """One ETKDG conformer of a molecule, cleaned up with MMFF where MMFF knows it."""
    from rdkit import Chem
    from rdkit.Chem import AllChem

    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    if AllChem.EmbedMolecule(molecule, randomSeed=seed) != 0:
        raise ValueError(f"RDKit cannot embed {smiles}")
    if AllChem.MMFFHasAllMoleculeParams(molecule):
        AllChem.MMFFOptimizeMolecule(molecule)
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    return Atoms(symbols, molecule.GetConformer().GetPositions())


def closest_approach(one: Atoms, other: Atoms) -> float:
    """Smallest distance between an atom of one and an atom of the other, in Å."""
    gaps = one.positions[:, None] - other.positions[None]
    return float(np.linalg.norm(gaps, axis=-1).min())


def randomly_turned(atoms: Atoms, *, rng: np.random.Generator) -> Atoms:
    """The molecule at the origin in a random orientation."""
    turned = atoms.copy()
    turned.positions -= turned.positions.mean(axis=0)
    turned.rotate(rng.uniform(0, 360), rng.normal(size=3))
    return turned


def attach(cluster: Atoms, molecule: Atoms, *, gap: tuple[float, float], rng: np.random.Generator) -> Atoms:
    """Slide a molecule in from far away until its closest approach falls in ``gap``."""
    low, high = gap
    while True:
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        for distance in np.arange(25.0, 0.0, -0.05):
            moved = molecule.copy()
            moved.positions += direction * distance
            approach = closest_approach(cluster, moved)
            if approach < low:
                break
            if approach < high:
                return cluster + moved


def assemble(name: str, *, conformer: int, gap: tuple[float, float] = (1.9, 2.4)) -> Atoms:
    """The geometry a dotted SMILES stands for: one molecule, or several in contact."""
    rng = system_rng(name, purpose=conformer)
    parts = [embed(part, seed=17 * conformer + 1 + i) for i, part in enumerate(name.split("."))]
    placed = randomly_turned(parts[0], rng=rng)
    for part in parts[1:]:
        placed = attach(placed, randomly_turned(part, rng=rng), gap=gap, rng=rng)
    return placed


def sample(atoms: Atoms, plan: Trajectory, *, rng: np.random.Generator) -> Iterator[Atoms]:
    """Frames of GFN-FF Langevin dynamics, 30 fs apart after 75 fs of warming up."""
    from gfnff import GFNFF

    calculator = GFNFF()
    step = baoab_step(atoms, calculator, temperature=plan.temperature, rng=rng)
    for _ in range(150):
        step()
    for _ in range(plan.frames):
        for _ in range(60):
            step()
        yield Atoms(atoms.numbers, atoms.positions.copy())


def baoab_step(
    atoms: Atoms,
    calculator: Calculator,
    *,
    temperature: float,
    rng: np.random.Generator,
    friction: float = 0.02,
) -> Callable[[], float]:
    """One Langevin step of 0.5 fs (BAOAB, 10.1093/amrx/abs010), returning the temperature.

    ASE's own integrator spends three quarters of a GFN-FF step comparing atoms with
    their cached copy. Friction is in 1/fs.
    """
    dt, mass = 0.5 * units.fs, atoms.get_masses()[:, None]
    keep = np.exp(-0.5 * friction)
    kick = np.sqrt((1 - keep**2) * units.kB * temperature / mass)
    velocity = rng.normal(size=atoms.positions.shape) * np.sqrt(units.kB * temperature / mass)

    def forces() -> np.ndarray:
        calculator.calculate(atoms, ["forces"], all_changes)
        return calculator.results["forces"]

    force = forces()

    def step() -> float:
        nonlocal velocity, force
        velocity = velocity + 0.5 * dt * force / mass
        atoms.positions += 0.5 * dt * velocity
        velocity = keep * velocity + kick * rng.normal(size=velocity.shape)
        atoms.positions += 0.5 * dt * velocity
        force = forces()
        velocity = velocity + 0.5 * dt * force / mass
        return float((mass * velocity**2).mean() / units.kB)

    return step


def strained(frame: Atoms, *, rng: np.random.Generator) -> Atoms:
    """A squeezed or stretched copy, so that the model does not collapse at short range."""
    copy = frame.copy()
    copy.positions *= rng.uniform(0.90, 1.15)
    copy.positions += rng.normal(scale=0.04, size=copy.positions.shape)
    return copy


def label(frame: Atoms, *, max_force: float, **info: str | int | float) -> Atoms | None:
    """The frame with GFN2-xTB energy and forces, or None where GFN2 finds no answer."""
    from tblite.ase import TBLite

    frame.calc = TBLite(method="GFN2-xTB", verbosity=0)
    try:
        energy, forces = frame.get_potential_energy(), frame.get_forces()
    except Exception as error:  # tblite has no error class of its own for "no convergence"
        log.warning("no label for %s: %s", info.get("system"), error)
        return None
    if not np.isfinite(energy) or np.abs(forces).max() > max_force:
        return None
    frame.calc = SinglePointCalculator(frame, energy=energy, forces=forces)
    frame.info.update(info)
    return frame


def trajectory_frames(name: str, conformer: int, plan: Trajectory) -> Iterator[Atoms | None]:
    """Labelled frames of one conformer: the dynamics, then strained copies of some of it."""
    rng = system_rng(name, purpose=100 + conformer)
    info = {"system": name, "conformer": conformer, "temperature": plan.temperature}
    frames = list(sample(assemble(name, conformer=conformer), plan, rng=rng))
    for frame in frames:
        yield label(frame, max_force=MAX_FORCE_SAMPLED, kind="dynamics", **info)
    for i in rng.choice(len(frames), size=STRAINED_PER_TRAJECTORY, replace=False):
        squeezed = strained(frames[i], rng=rng)
        yield label(squeezed, max_force=MAX_FORCE_STRAINED, kind="strained", **info)


def close_pair_frames(name: str) -> Iterator[Atoms | None]:
    """A pair in random orientations, from the wall at 1.2 Å out to 5 Å."""
    for i, gap in enumerate(np.geomspace(1.2, 5.0, CLOSE_PAIR_FRAMES)):
        pair = assemble(name, conformer=1000 + i, gap=(gap, 1.1 * gap))
        yield label(pair, max_force=MAX_FORCE_STRAINED, kind="pair", system=name, conformer=i)


def system_frames(name: str) -> list[Atoms]:
    """Everything labelled for one molecule or cluster; a conformer that fails is skipped."""
    plans = CLUSTER_TRAJECTORIES if "." in name else MOLECULE_TRAJECTORIES
    frames: list[Atoms | None] = []
    for conformer, plan in enumerate(plans):
        try:
            frames += trajectory_frames(name, conformer, plan)
        except (ValueError, RuntimeError) as error:
            log.warning("conformer %d of %s skipped: %s", conformer, name, error)
    return [frame for frame in frames if frame is not None]


def make_data(workdir: Path) -> None:
    """Label every system that has no file yet."""
    folder = workdir / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(name, "system", system_frames) for name in (*MOLECULES, *TAUTOMERS, *PEPTIDES, *CLUSTERS, *UNSEEN)]
    jobs += [(name, "pair", lambda n: [f for f in close_pair_frames(n) if f]) for name in CLOSE_PAIRS]
    for name, kind, frames_of in jobs:
        path = folder / f"{kind}_{zlib.crc32(name.encode()):08x}.extxyz"
        if path.exists():
            continue
        frames = frames_of(name)
        partial = path.with_suffix(".partial")
        write(partial, frames, format="extxyz")
        partial.rename(path)  # so that a file is either complete or absent
        log.info("%-45s %s %4d frames", name, kind, len(frames))


# --------------------------------------------------------------------------------------
# Who trains and who tests
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The labelled frames by what they are for."""

    train: list[Atoms]
    valid: list[Atoms]
    """Random frames of the training trajectories: for the log, not for the model card."""
    test: list[Atoms]
    """Whole trajectories: the molecule was trained on, from other conformers."""
    strained: list[Atoms]
    """The squeezed and stretched copies of those trajectories."""
    unseen: list[Atoms]
    """Every trajectory of molecules that no training frame contains."""


VALIDATION_FRAMES = 200


def held_out_trajectories(names: list[str]) -> dict[str, int]:
    """For a quarter of the systems, the one conformer whose trajectory is the test."""
    rng = np.random.default_rng(SEED)
    chosen = rng.choice(sorted(names), size=len(names) // 4, replace=False)
    return {str(name): int(rng.integers(4)) for name in chosen}


def load_split(workdir: Path) -> Split:
    """Read every labelled frame and sort it by what it is for."""
    files = sorted((workdir / "frames").glob("*.extxyz"))
    frames = [frame for path in files for frame in read(path, ":")]
    sampled = {f.info["system"] for f in frames if f.info["kind"] != "pair"}
    held = held_out_trajectories(sorted(sampled - set(UNSEEN)))

    def purpose(frame: Atoms) -> str:
        name, kind = frame.info["system"], frame.info["kind"]
        if kind == "pair":
            return "train"
        if name in UNSEEN:
            return "unseen" if kind == "dynamics" else "dropped"
        if held.get(name) != frame.info["conformer"]:
            return "train"
        return "test" if kind == "dynamics" else "strained"

    groups: dict[str, list[Atoms]] = {}
    for frame in frames:
        groups.setdefault(purpose(frame), []).append(frame)
    order = np.random.default_rng(SEED).permutation(len(groups["train"]))
    shuffled = [groups["train"][i] for i in order]
    return Split(
        train=shuffled[VALIDATION_FRAMES:],
        valid=shuffled[:VALIDATION_FRAMES],
        test=groups["test"],
        strained=groups["strained"],
        unseen=groups.get("unseen", []),
    )


# --------------------------------------------------------------------------------------
# Stage 2: train
# --------------------------------------------------------------------------------------

MODEL = {
    "num_layers": 2,
    "num_channels": 32,
    "l_max": 2,
    "node_symmetry": 1,
    "correlation": 2,
    "num_rbf": 8,
    "radial_mlp_hidden": [32, 32],
    "readout_irreps": ("16x0e", "0e"),
}
CUTOFF = 4.5
"""Å. Two layers see 9 Å; a larger cutoff costs more than it gives at this size."""

EPOCHS = 8
ATOMS_PER_BATCH = 190
EDGES_PER_BATCH = 2240
GRAPHS_PER_BATCH = 32
PEAK_LEARNING_RATE = 5e-3
EMA_DECAY = 0.995

FORCES_WEIGHT = 25.0
ENERGY_WEIGHTS = (1.0, 150.0)
ENERGY_RAMP = (0.25, 0.8)
"""Fractions of the training between which the energy weight rises. Forces first: total
energies of different molecules differ by far more than what one molecule's motion does."""


def energy_weight(epoch: float, *, epochs: int) -> float:
    """Weight of the energy in the loss: constant, a geometric ramp, constant."""
    import jax.numpy as jnp

    (low, high), (start, stop) = ENERGY_WEIGHTS, ENERGY_RAMP
    progress = jnp.clip((epoch / epochs - start) / (stop - start), 0.0, 1.0)
    return low * (high / low) ** progress


def build_datasets(split: Split):
    """Graphs of the training and validation frames, and what the model must know of them."""
    from mlip.data import GraphDatasetBuilder
    from mlip.data.chemical_systems_readers.ase_atoms_reader import ASEAtomsReader

    # Explicit sizes: the automatic ones pad every batch to twice the edges it holds.
    config = GraphDatasetBuilder.Config(
        graph_cutoff_angstrom=CUTOFF,
        batch_size=GRAPHS_PER_BATCH,
        max_n_node=-(-ATOMS_PER_BATCH // GRAPHS_PER_BATCH),
        max_n_edge=-(-EDGES_PER_BATCH // (2 * GRAPHS_PER_BATCH)),
    )
    readers = {"train": ASEAtomsReader(split.train), "valid": ASEAtomsReader(split.valid)}
    builder = GraphDatasetBuilder(readers, config)
    return builder.get_datasets(), builder.dataset_info


def build_loss(epochs: int):
    """Huber loss on forces and energy per atom."""
    from mlip.models.loss import HuberLoss

    return HuberLoss(
        energy_weight_schedule=lambda epoch: energy_weight(epoch, epochs=epochs),
        forces_weight_schedule=lambda _: FORCES_WEIGHT,
        stress_weight_schedule=lambda _: 0.0,
    )


def build_optimizer(*, steps_per_epoch: int, epochs: int):
    """AMSGrad, warmed up for half an epoch, then falling linearly to nothing."""
    from mlip.training import OptimizerConfig, get_default_mlip_optimizer

    warmup = steps_per_epoch // 2
    return get_default_mlip_optimizer(
        OptimizerConfig(
            grad_norm=10.0,
            init_learning_rate=1e-4,
            peak_learning_rate=PEAK_LEARNING_RATE,
            final_learning_rate=1e-5,
            warmup_steps=warmup,
            transition_steps=steps_per_epoch * epochs - warmup,
        )
    )


def build_checkpoints(folder: Path, *, epochs: int):
    """Checkpoints of every epoch: keeping fewer would keep the best by loss, not the newest."""
    from mlip.training import TrainingIOHandler

    folder.mkdir(exist_ok=True)
    return TrainingIOHandler(
        TrainingIOHandler.Config(
            checkpoint_dir=folder,
            max_to_keep=epochs,
            restore_checkpoint_if_exists=True,
            restore_optimizer_state=True,
            ema_decay=EMA_DECAY,
        )
    )


def build_loop(split: Split, *, workdir: Path, epochs: int):
    """The training loop, continued from its last checkpoint where there is one."""
    from mlip.models import ForceField, Mace
    from mlip.training import TrainingLoop

    datasets, info = build_datasets(split)
    return TrainingLoop(
        train_dataset=datasets["train"],
        validation_dataset=datasets["valid"],
        force_field=ForceField.from_mlip_network(Mace(Mace.Config(**MODEL), info)),
        loss=build_loss(epochs),
        optimizer=build_optimizer(steps_per_epoch=len(datasets["train"]), epochs=epochs),
        config=TrainingLoop.Config(num_epochs=epochs, run_eval_at_start=False, ema_decay=EMA_DECAY),
        io_handler=build_checkpoints(workdir / "checkpoints", epochs=epochs),
    )


def averaged_model(loop):
    """The force field with the running average of the parameters.

    Not the loop's own "best" one: it is chosen by the loss, and that grows with the
    energy weight, so it would be a model from before the ramp.
    """
    import jax
    from mlip.models import ForceField
    from mlip.training.ema import get_debiased_params

    averaged = get_debiased_params(loop.training_state.ema_state, EMA_DECAY)
    return ForceField(loop.force_field.predictor, jax.device_get(averaged))


def train(workdir: Path, *, epochs: int = EPOCHS) -> None:
    """Train, saving the model after every epoch."""
    from mlip.models.model_io import save_model_to_zip
    from mlip.training.training_io_handler import LogCategory

    split = load_split(workdir)
    log.info("%d train, %d valid, %d test", len(split.train), len(split.valid), len(split.test))
    loop = build_loop(split, workdir=workdir, epochs=epochs)
    history = (workdir / "history.jsonl").open("a", buffering=1)
    start, cpu_start = time.time(), time.process_time()

    def record(category: LogCategory, metrics: dict, epoch: int) -> None:
        scalars = {key: float(value) for key, value in metrics.items() if np.ndim(value) == 0}
        spent = {"wall_s": time.time() - start, "cpu_s": time.process_time() - cpu_start}
        line = {"category": category.name, "epoch": epoch, **scalars, **spent}
        history.write(json.dumps(line) + "\n")
        log.info("%s", line)
        if category is LogCategory.BEST_MODEL:  # the last message of an epoch
            save_model_to_zip(workdir / MODEL_FILE, averaged_model(loop))

    loop.io_handler.attach_logger(record)
    loop.run()


# --------------------------------------------------------------------------------------
# Stage 3: evaluate
# --------------------------------------------------------------------------------------

KCAL_PER_MOL = units.kcal / units.mol


@dataclass(frozen=True)
class Errors:
    """How far the model is from its teacher on one set of frames."""

    frames: int
    force_mae_mev_per_angstrom: float
    force_rmse_mev_per_angstrom: float
    force_spread_mev_per_angstrom: float
    """Standard deviation of the reference forces, to read the two above against."""
    energy_mae_mev_per_atom: float
    relative_energy_mae_kcal_per_mol: float
    """Within a trajectory, after taking out its mean error."""


def errors(frames: list[Atoms], predictions: list) -> Errors:
    """Errors of predictions that belong to these frames, one for one."""
    force = np.concatenate([f.get_forces().ravel() for f in frames])
    force_error = force - np.concatenate([np.ravel(p.forces) for p in predictions])
    energy_error = np.array(
        [f.get_potential_energy() - float(p.energy) for f, p in zip(frames, predictions, strict=True)]
    )
    trajectory = [f"{f.info['system']} {f.info['conformer']}" for f in frames]
    relative = energy_error.copy()
    for name in set(trajectory):
        of_it = [i for i, other in enumerate(trajectory) if other == name]
        relative[of_it] -= relative[of_it].mean()
    atoms = np.array([len(f) for f in frames])
    return Errors(
        frames=len(frames),
        force_mae_mev_per_angstrom=1e3 * float(np.abs(force_error).mean()),
        force_rmse_mev_per_angstrom=1e3 * float(np.sqrt((force_error**2).mean())),
        force_spread_mev_per_angstrom=1e3 * float(force.std()),
        energy_mae_mev_per_atom=1e3 * float(np.abs(energy_error / atoms).mean()),
        relative_energy_mae_kcal_per_mol=float(np.abs(relative).mean() / KCAL_PER_MOL),
    )


def test_groups(split: Split) -> dict[str, list[Atoms]]:
    """The sets of frames the model card has a row for."""
    by_temperature = {
        f"test, {t:.0f} K": [f for f in split.test if f.info["temperature"] == t]
        for t in sorted({f.info["temperature"] for f in split.test})
    }
    return {
        "test": split.test,
        **by_temperature,
        "strained": split.strained,
        "unseen": split.unseen,
    }


def predictions_by_frame(model, frames: list[Atoms]) -> dict[int, object]:
    """Predictions by the identity of their frame, from one pass: each pass compiles anew."""
    from mlip.inference import run_batched_inference

    predictions = run_batched_inference(frames, model, batch_size=16)
    return {id(frame): p for frame, p in zip(frames, predictions, strict=True)}


TAUTOMER_PAIRS = {
    "2-pyridone / 2-hydroxypyridine": ("O=c1cccc[nH]1", "Oc1ccccn1"),
    "acetylacetone keto / enol": ("CC(=O)CC(C)=O", "CC(=O)/C=C(/C)O"),
    "formamide / formamidic acid": ("NC=O", "N=CO"),
    "acetaldehyde / vinyl alcohol": ("CC=O", "C=CO"),
    "4-/5-methylimidazole": ("Cc1c[nH]cn1", "Cc1cnc[nH]1"),
    "acetone / propen-2-ol": ("CC(C)=O", "CC(O)=C"),
    "4-pyridone / 4-hydroxypyridine": ("O=c1cc[nH]cc1", "Oc1ccncc1"),
    "thioacetamide / its imidothiol": ("CC(=S)N", "CC(S)=N"),
}


def relaxed(smiles: str) -> Atoms:
    """A conformer at its GFN2-xTB minimum."""
    from ase.optimize import LBFGS
    from tblite.ase import TBLite

    atoms = embed(smiles, seed=1)
    atoms.calc = TBLite(method="GFN2-xTB", verbosity=0)
    LBFGS(atoms, logfile=None).run(fmax=0.02, steps=300)
    return label(Atoms(atoms.numbers, atoms.positions), max_force=np.inf)


def tautomer_gaps(energies: list[float]) -> dict[str, float]:
    """Energy of the second tautomer of every pair over the first, in kcal/mol."""
    gaps = np.diff(np.reshape(energies, (-1, 2)), axis=1).ravel() / KCAL_PER_MOL
    return dict(zip(TAUTOMER_PAIRS, map(float, gaps), strict=True))


def static_measurements(model, split: Split) -> dict[str, dict]:
    """Errors on every group of frames, and the tautomers at their GFN2 minima."""
    minima = [relaxed(smiles) for pair in TAUTOMER_PAIRS.values() for smiles in pair]
    predicted = predictions_by_frame(model, [*split.test, *split.strained, *split.unseen, *minima])
    groups = test_groups(split)
    return {
        "errors": {
            name: asdict(errors(group, [predicted[id(frame)] for frame in group]))
            for name, group in groups.items()
        },
        "tautomers_kcal_per_mol": {
            "gfn2": tautomer_gaps([atoms.get_potential_energy() for atoms in minima]),
            "model": tautomer_gaps([float(predicted[id(atoms)].energy) for atoms in minima]),
        },
    }


@dataclass(frozen=True)
class Dynamics:
    """What became of a Langevin run at 300 K."""

    atoms: int
    steps: int
    bonds_broken: int
    """Of the bonds of the first frame, those more than half as long again in the last."""
    shortest_contact_angstrom: float
    highest_temperature_kelvin: float
    max_force_ev_per_angstrom: float


def bonded_pairs(atoms: Atoms) -> tuple[np.ndarray, np.ndarray]:
    """Index arrays of the pairs closer than 1.2 times the sum of their covalent radii."""
    from ase.data import covalent_radii

    radii = covalent_radii[atoms.numbers]
    close = atoms.get_all_distances() < 1.2 * (radii[:, None] + radii[None])
    return np.nonzero(np.triu(close, k=1))


def run_dynamics(atoms: Atoms, model, *, steps: int, relax: int = 50) -> Dynamics:
    """A few steps of relaxation, then 300 K Langevin dynamics of 0.5 fs steps."""
    from ase.optimize import FIRE
    from mlip.simulation.ase.mlip_ase_calculator import MLIPForceFieldASECalculator

    calculator = MLIPForceFieldASECalculator(atoms, 1.5, model)
    atoms.calc = calculator
    FIRE(atoms, logfile=None).run(fmax=0.1, steps=relax)
    bonds = bonded_pairs(atoms)
    before = atoms.get_all_distances()[bonds]
    step = baoab_step(atoms, calculator, temperature=300.0, rng=np.random.default_rng(SEED), friction=0.01)
    hottest, strongest, shortest = 0.0, 0.0, np.inf
    for _ in range(steps):
        hottest = max(hottest, step())
        strongest = max(strongest, float(np.abs(calculator.results["forces"]).max()))
        distances = atoms.get_all_distances()
        shortest = min(shortest, float(distances[np.triu_indices(len(atoms), 1)].min()))
    broken = int((atoms.get_all_distances()[bonds] > 1.5 * before).sum())
    return Dynamics(len(atoms), steps, broken, shortest, hottest, strongest)


def stability_runs(protein: Path | None) -> dict[str, tuple[Atoms, int]]:
    """What is simulated, and for how many steps."""
    runs = {
        "capped alanine": (assemble("CC(=O)NC(C)C(=O)NC", conformer=50), 1000),
        "12 waters": (assemble(".".join("O" * 12), conformer=50), 1000),
    }
    if protein is not None:
        atoms = read(protein)
        runs[protein.stem] = (Atoms(atoms.numbers, atoms.positions), 300)
    return runs


def describe(path: Path, model, split: Split) -> dict[str, object]:
    """What the file holds, and with what it was measured."""
    import jax

    return {
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(model.params)),
        "zip_bytes": path.stat().st_size,
        "versions": {name: version(name) for name in VERSIONS},
        "frames": {name: len(frames) for name, frames in vars(split).items()},
        "train_atoms": [min(map(len, split.train)), max(map(len, split.train))],
    }


def evaluate(workdir: Path, *, protein: Path | None = None) -> None:
    """Measure the model file and write ``evaluation.json``, after every measurement."""
    from mlip.models import Mace
    from mlip.models.model_io import load_model_from_zip

    path, split = workdir / MODEL_FILE, load_split(workdir)
    model = load_model_from_zip(Mace, path)
    report: dict[str, object] = {}

    def add(section: dict[str, object]) -> None:
        report.update(section)
        (workdir / "evaluation.json").write_text(json.dumps(report, indent=2))
        log.info("%s", json.dumps(section, indent=2))

    add(describe(path, model, split))
    add(static_measurements(model, split))
    for name, (atoms, steps) in stability_runs(protein).items():
        add({f"dynamics, {name}": asdict(run_dynamics(atoms, model, steps=steps))})


VERSIONS = ("mlip", "jax", "flax", "ase", "rdkit", "gfnff", "tblite", "numpy")


def main() -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=("data", "train", "evaluate"))
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of the stage 'train'")
    parser.add_argument("--protein", type=Path, help="a structure file for the stage 'evaluate'")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    workdir = arguments.workdir.resolve()
    match arguments.stage:
        case "data":
            make_data(workdir)
        case "train":
            train(workdir, epochs=arguments.epochs)
        case "evaluate":
            evaluate(workdir, protein=arguments.protein)


if __name__ == "__main__":
    main()
