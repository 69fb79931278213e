# SPDX-License-Identifier: Apache-2.0
"""What both sides of `against_reference.py` run in an environment of their own. Prints one line of JSON.

python reference_driver.py audit MODEL DATA RUN_MODE BENCHMARK...   (the reference; ours runs its command)
python reference_driver.py predict MODEL                            (either side)
python reference_driver.py dynamics MODEL DATA STEPS BENCHMARK...   (either side)
"""

import json
import os
import resource
import sys
import time
from dataclasses import dataclass


@dataclass
class Compilations:
    """How often XLA has compiled."""

    count: int = 0

    def listen(self):
        """Count from now on."""
        from jax import monitoring

        monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event, duration_secs, **_):
        self.count += event == "/jax/core/compile/backend_compile_duration"


def load(model):
    """The force field, by whatever door this version has."""
    try:
        from mlipaudit.benchmarks_cli import load_force_field
    except ImportError:
        from mlipaudit import load_force_field
    return load_force_field(model)


def audit(model, data, run_mode, *names):
    """Results, seconds and compilations by benchmark."""
    compilations = Compilations()
    compilations.listen()
    start = time.perf_counter()
    import mlipaudit.benchmarks as benchmarks

    force_field = load(model)
    report = {"load_seconds": time.perf_counter() - start, "load_compilations": compilations.count}
    use_solvents_at_hand(data)
    outputs = {}
    for cls in (cls for cls in benchmarks.BENCHMARKS if cls.name in names):
        before, start = compilations.count, time.perf_counter()
        result = one_result(cls, force_field, data, run_mode, outputs)
        report[cls.name] = {
            "result": result,
            "seconds": time.perf_counter() - start,
            "compilations": compilations.count - before,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    return report


def one_result(cls, force_field, data, run_mode, outputs):
    """The result of one benchmark, which takes over the outputs of another of the same id as its command does."""
    cls.required_elements = set()  # the data at hand has fewer elements than the public data set
    try:
        benchmark = cls(force_field, data, run_mode)
        shared = outputs.get(cls.reusable_output_id) if cls.reusable_output_id else None
        if shared is None:
            benchmark.run_model()
        else:
            fields = {name: getattr(shared, name) for name in type(shared).model_fields}
            benchmark.model_output = cls.model_output_class(**fields)
        outputs[cls.reusable_output_id] = benchmark.model_output
        return json.loads(benchmark.analyze().model_dump_json())
    except Exception as error:  # around a benchmark: its command goes on as well
        print(f"{cls.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return {"failed": True}


def use_solvents_at_hand(data):
    """Take those solvents out of the reference's list that the data does not have: `dev` asks for the first."""
    from mlipaudit.utils import molecular_liquids as liquids

    for name in list(liquids.SOLVENT_MOLECULE_CONFIG):
        if not os.path.exists(os.path.join(data, "solvent_radial_distribution", f"{name}_eq.pdb")):
            del liquids.SOLVENT_MOLECULE_CONFIG[name]


def molecules(number=400):
    """Molecules of about 15 atoms, every one a little different."""
    from ase.build import molecule

    kinds = [molecule(name) for name in ("isobutane", "trans-butane", "2-butyne", "C4H4NH", "CH3CH2OCH3", "C6H6")]
    found = []
    for index in range(number):
        atoms = kinds[index % len(kinds)].copy()
        atoms.rattle(0.05, seed=index)
        atoms.info["charge"] = 0
        found.append(atoms)
    return found


def predictor(force_field):
    """How each version's benchmarks ask for energies."""
    try:
        from mlipaudit.backends.contract import backend_for
    except ImportError:
        from mlipaudit.utils import run_inference

        return lambda atoms: run_inference(atoms, force_field, batch_size=128)
    return backend_for(force_field).predict


def predict(model):
    """Structures per second once everything is compiled: the median of five."""
    ask, atoms, times = predictor(load(model)), molecules(), []
    for _ in range(6):
        start = time.perf_counter()
        energies = [float(answer.energy) for answer in ask([a.copy() for a in atoms])]
        times.append(time.perf_counter() - start)
    return {"structures_per_second": len(atoms) / sorted(times[1:])[2], "energies": energies}


def with_steps(cls, steps):
    """The benchmark, with a protocol of so many steps and a hundredth as many frames."""
    module = sys.modules[cls.__module__]
    if hasattr(module, "SIMULATION_CONFIG"):
        module.SIMULATION_CONFIG.update(num_steps=steps, snapshot_interval=100, num_episodes=steps // 1000)
        return cls
    from dataclasses import replace

    longest = cls.protocols["standard"]
    md = replace(longest.md, num_steps=steps, snapshot_interval=100, log_interval=1000)
    return type(cls.__name__, (cls,), {"protocols": {"standard": replace(longest, md=md)}})


def dynamics(model, data, steps, *names):
    """Seconds, steps per second and score of benchmarks that run dynamics of small molecules."""
    steps, compilations, shared = int(steps), Compilations(), {}
    if not is_reference():
        from mlipaudit.backends.compilation_cache import use_compilation_cache

        use_compilation_cache()
    compilations.listen()
    force_field, report = load(model), {}
    if not is_reference():
        from mlipaudit.backends.contract import backend_for

        shared["backend"] = backend_for(force_field)  # one for all benchmarks, as in a run
    for name in names:
        cls = with_steps(benchmark_class(name), steps)
        cls.required_elements = set()
        before, start = compilations.count, time.perf_counter()
        benchmark = cls(force_field, data, "standard", **shared)
        benchmark.run_model()
        seconds = time.perf_counter() - start
        result = json.loads(benchmark.analyze().model_dump_json())
        report[name] = {
            "seconds": seconds,
            "steps": steps * len(result["molecules"]),
            "score": result["score"],
            "compilations": compilations.count - before,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    return report


def is_reference():
    """Whether this environment holds the reference."""
    from importlib.util import find_spec

    return find_spec("mlipaudit.benchmarks_cli") is not None


def benchmark_class(name):
    """By its name, on either side."""
    import mlipaudit.benchmarks as benchmarks

    if hasattr(benchmarks, "BENCHMARKS"):
        return next(cls for cls in benchmarks.BENCHMARKS if cls.name == name)
    from mlipaudit import registry

    return registry.load(registry.BENCHMARKS, name)


if __name__ == "__main__":
    print(json.dumps({"audit": audit, "predict": predict, "dynamics": dynamics}[sys.argv[1]](*sys.argv[2:])))
    # The reference's libraries may keep threads.
    sys.stdout.flush()
    os._exit(0)
