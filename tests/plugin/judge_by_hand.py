from mlipaudit.backends.toy import ToyCalculator

from diatomic_bonds import DiatomicBondsBenchmark, DiatomicBondsModelOutput

benchmark = DiatomicBondsBenchmark(ToyCalculator(), data_input_dir="data", run_mode="fast")
benchmark.run_model()
result = benchmark.analyze()
print(result.score, result.score_interval, result.mae)

# Answers can be stored, and judged again without a model.
stored = benchmark.model_output.model_dump_json()
again = DiatomicBondsModelOutput.model_validate_json(stored)
assert DiatomicBondsBenchmark.judge(again, benchmark.reference, benchmark.protocol) == result
