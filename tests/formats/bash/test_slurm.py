"""How many processes a script starts, by Slurm's options and torchrun's."""

from fp8tune.formats import parse
from tests.each import each

JOB = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\n"
TASKS = JOB + "#SBATCH --ntasks-per-node=8\n"


@each(
    ("script", "count"),
    [
        ("torchrun --nproc_per_node=8 --nnodes 2 {}", 16),
        ("torchrun --nproc_per_node $GPUS {}", None),
        (JOB + "srun torchrun --nnodes $SLURM_NNODES --nproc-per-node 8 {}", 32),
        (JOB + "srun -N 2 -n 16 python -u {}", 16),
        (TASKS + "srun bash -c 'python -u {}'", 32),
        ("N=1\nsbatch <<EOF\n" + TASKS + "srun python -u {}\nEOF", 32),
        ("sbatch -N 2 -n 8 --wrap='srun python -u {}'", 8),
        ("srun python -u {}", None),
    ],
)
def test_processes(script, count):
    text = script.replace("{}", "pretrain_gpt.py --bf16 --hidden-size 1024") + "\n"
    assert parse(text.encode(), "run.sh").values.get("processes") == count
