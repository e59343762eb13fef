"""Scripts are followed as bash follows them, and nothing in them runs."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from syncline.errors import SynclineError
from syncline.jobs.launch.launcher import launch
from syncline.jobs.launch.script import read_script
from tests.jobs.scripts import LLAMA_70B, MIXTRAL

pytest.importorskip("tree_sitter_bash", reason="tree-sitter-bash is not installed")

PRINTS = "torchrun() { printf '%s\\n' \"$@\"; }\nsrun() { printf '%s\\n' \"$@\"; }\n"
SNIPPETS = [
    "A=3\ntorchrun --a $A ${A} \"$A b\" '$A' x$A",
    "A='--x 1 --y 2'\ntorchrun $A",
    "A='--x 1 --y 2'\ntorchrun \"$A\"",
    'A=(--x 1 "--y 2")\ntorchrun ${A[@]}\n',
    'A=(--x 1 "--y 2")\ntorchrun "${A[@]}"',
    "A=(1 2)\nA+=(3)\nB=x\nB+=y\ntorchrun ${A[@]} $B ${A[1]}",
    "torchrun ${A:-4} ${B-5} ${C:+6}\n",
    "A=\ntorchrun x${A:-1} y${A-2} z",
    "A=7\ntorchrun $((A * 2 + 1)) $(( (A - 1) / 2 )) $((-7 / 2)) $((A % 4))",
    "A=2\nif [ $A == 2 ]; then B=yes; elif [ $A -gt 3 ]; then B=more; else B=no; fi\ntorchrun $B",
    'A=4\nif [ "$A" == "2" ]; then B=yes; elif [ $A -gt 3 ]; then B=more; else B=no; fi\ntorchrun $B',
    'A=x\nif [[ "$A" == "y" ]] || [[ -z "$B" ]]; then C=1; else C=2; fi\ntorchrun $C',
    "A=70b\ncase $A in 7b|8b) L=32;; 70*) L=80;; *) L=1;; esac\ntorchrun $L",
    '[ -n "$A" ] && B=1\n[ -z "$A" ] && C=2\ntorchrun x$B y$C',
    "true || exit 1\ntorchrun --x 1",
    "mkdir -p /tmp || { echo wrong; exit 1; }\ntrue && A=1\ntorchrun --x $A",
    'S=" --a 1 \\\n  --b ${A:-2} "\ntorchrun $S --c',
    "f() { torchrun $1 $2; }\nA=5\nf --x $A",
    "export A=1 B=2\ntorchrun $A$B",
    "A=1 # 2\n# A=3\ntorchrun $A",
    'A=a\\ b\ntorchrun "$A" c\\ d',
    "while [[ $# -gt 0 ]]; do A=$1; shift; done\nA=${A:-none}\ntorchrun $A",
    'A="x"\nB="$A y"\nC="${B} z"\ntorchrun "$C" $C',
    'A=(1)\nif [ -n "${K}" ]; then A+=(2); fi\ntorchrun ${A[@]}',
    'A=(--x 1 "--y 2")\nB="z ${A[@]}"\ntorchrun $B',
    LLAMA_70B,
    MIXTRAL.replace("sh -c", ""),
]


def followed(tmp_path, text, environment=None, name="train.sh"):
    file = tmp_path / name
    file.write_text(text)
    return read_script(str(file), environment or {})


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("text", SNIPPETS)
def test_words_are_those_of_bash(tmp_path, text):
    done = subprocess.run(
        ["bash", "-c", PRINTS + text], capture_output=True, text=True, check=True, env={"SLURM_NNODES": "64"}
    )
    commands = [each for each in followed(tmp_path, text).commands if each.words[0].text in ("torchrun", "srun")]
    (command,) = [each for each in commands if each.certain]
    assert [each.text for each in command.words[1:]] == done.stdout.splitlines()


def test_words_have_the_places_where_they_are_written(tmp_path):
    (command,) = followed(tmp_path, 'A=(\n  --x 1\n)\nS="--y 2 \\\n  --z 3"\ntorchrun ${A[@]} $S').commands
    assert [(each.text, each.mark.line) for each in command.words[1:]] == [
        ("--x", 2),
        ("1", 2),
        ("--y", 4),
        ("2", 4),
        ("--z", 5),
        ("3", 5),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "A=$(nvidia-smi -L | wc -l)\ntorchrun --x $A",
        "if [ -f there ]; then A=1; else A=2; fi\ntorchrun --x $A",
        "for A in 1 2; do B=$A; done\ntorchrun --x $B",
        "torchrun --x $1",
        "torchrun --x $UNSET",
    ],
)
def test_what_only_a_run_knows_is_unknown(tmp_path, text):
    command = followed(tmp_path, text).commands[-1]
    assert [each.unknown is None for each in command.words[:2]] == [True, True]
    assert command.words[2].unknown


def test_given_variables_are_known(tmp_path):
    (command,) = followed(tmp_path, "torchrun --x $UNSET ${TP:-1}", {"UNSET": "5", "TP": "8"}).commands
    assert [each.text for each in command.words] == ["torchrun", "--x", "5", "8"]


def test_nothing_runs(tmp_path):
    touched = tmp_path / "touched"
    followed(tmp_path, f"touch {touched}\nA=$(touch {touched})\n`touch {touched}`\ntorchrun $A --num-layers 1")
    assert not touched.exists()


def test_sourced_and_submitted_files_are_followed(tmp_path):
    (tmp_path / "config.sh").write_text('PARAMS="--num-layers ${LAYERS}"\n')
    (tmp_path / "run.sh").write_text('#SBATCH --ntasks-per-node=8\nsrun sh -c "python train.py ${PARAMS}"\n')
    script = followed(tmp_path, "LAYERS=12\n. `pwd`/config.sh\nsbatch --nodes=4 run.sh\n")
    found = launch(script, "train.sh", ["--num-layers"])
    assert [each.text for each in found.arguments] == ["--num-layers", "12"]
    assert found.gpus == 32


def test_lines_that_are_given_to_the_batch_system_are_followed(tmp_path):
    """As ``examples/megatron_fsdp/sbatch_mfsdp_deepseek_v3.sh`` of Megatron-LM submits its job."""
    text = """ARGS=(
    --num-layers ${LAYERS:-61}
)
COMMAND="
cd /opt;
python /opt/pretrain_gpt.py ${ARGS[@]}"
sbatch <<EOF
#!/bin/bash
#SBATCH --nodes=128
#SBATCH --ntasks-per-node=8
srun -l bash -x -c "${COMMAND}" 2>&1 | tee \\${SLURM_JOB_ID}.log
EOF
"""
    found = launch(followed(tmp_path, text), "train.sh", ["--num-layers"])
    assert [(each.text, each.mark.line) for each in found.arguments] == [("--num-layers", 2), ("61", 2)]
    assert found.gpus == 1024
    assert not followed(tmp_path, "cat <<EOF\ntorchrun --x 1\nEOF").commands[0].words[1:]


def test_slurm_tells_the_number_of_accelerators(tmp_path):
    found = launch(followed(tmp_path, LLAMA_70B), "train.sh", ["--num-layers"])
    assert found.gpus == 512
    found = launch(followed(tmp_path, MIXTRAL), "train.sh", ["--num-layers"])
    assert (found.gpus, found.said) == (128, "--ntasks-per-node 8, --nodes 16")


def test_scripts_without_a_training_or_with_several_are_refused(tmp_path):
    with pytest.raises(SynclineError, match="no command of this script starts a training"):
        launch(followed(tmp_path, "echo hello"), "train.sh", ["--num-layers"])
    with pytest.raises(SynclineError, match="several commands start a training, in lines 1, 2"):
        launch(followed(tmp_path, "a --num-layers 1\na --num-layers 2"), "train.sh", ["--num-layers"])


def test_a_loop_of_files_that_source_each_other_ends(tmp_path):
    assert followed(tmp_path, ". ./train.sh\ntorchrun x").unread
