"""Make recipes/tokenizers/small-2048 from the coding generator's texts; say how many tokens they take.

python benchmarks/make_tokenizer.py                    # writes the tokenizer, prints its counts
python benchmarks/make_tokenizer.py --compare DIR      # counts under another tokenizer too (changes nothing)
"""

from __future__ import annotations

import argparse
import bisect
import heapq
import inspect
import json
import keyword
import string
import textwrap
from pathlib import Path
from statistics import mean

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from mimo.domains.coding.generated.draw import Draw, draw, families_for
from mimo.domains.coding.generated.write import instruction
from mimo.harnesses.base import Message
from mimo.harnesses.edit_lines import SYSTEM
from mimo.harnesses.renderer import Renderer

TARGET = Path(__file__).parents[1] / "recipes" / "tokenizers" / "small-2048"
VOCABULARY = 2048
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SEED = 2048
"""Not a seed of any recipe, so that no task's own text made the vocabulary."""


def texts_of(task: Draw) -> tuple[str, list[str], list[str]]:
    """Instruction, the expert's turns, what the harness answers (as in the longest usual way)."""
    layout = task.layout
    wrong = layout.module(task.bug.apply(task.spelling.source))
    line = layout.offset + task.bug.line
    code = task.bug.correct.strip()
    turns = [f'<edit path="{layout.module_path}" line="{line}">{code}</edit>', "<test/>", "<submit/>"]
    answers = [
        f"Edited {layout.module_path}:\n{line} {task.bug.correct}",
        f"{len(task.visible)} passed\nLast turn.",
    ]
    return instruction(task, wrong), turns, answers


def tasks(count: int, level: int | None, seed: int = SEED) -> list[Draw]:
    """Training tasks only."""
    pool = families_for("train", None, level)
    return [draw(seed, "train", index, pool, level) for index in range(count)]


def train() -> Tokenizer:
    """A byte-level BPE of exactly VOCABULARY tokens."""
    corpus = [SYSTEM] * 400 + ["system\n", "user\n", "assistant\n", "tool\n"] * 400
    for task in tasks(3000, None):
        text, turns, answers = texts_of(task)
        tests = [
            f"FAIL assert {task.spelling.function}({case.arguments}) == {case.expected}"
            for case in task.visible
        ]
        corpus += [text, *turns, *answers, *tests, f'<look path="{task.layout.module_path}"/>']
    corpus += [f" {word}" for word in keyword.kwlist] * 20
    corpus += [inspect.getsource(module) for module in (bisect, heapq, string, textwrap)]
    corpus += [f"{number} " for number in range(1, 31)] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(name, special=True, normalized=False) for name in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=1,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """The two files transformers and vLLM read."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def report(folder: Path) -> None:
    """Mean and largest token counts of prompts and of whole demonstrations."""
    renderer = Renderer(folder)
    for level in (1, 2):
        prompts, wholes, turns_only = [], [], []
        for task in tasks(300, level, seed=7):
            text, turns, answers = texts_of(task)
            ids = renderer.opening_ids([Message(role="system", text=SYSTEM), Message(role="user", text=text)])
            said = [renderer.assistant_ids(turn) for turn in turns]
            heard = [renderer.observation_ids(answer, after_stop=True) for answer in answers]
            prompts.append(len(ids))
            turns_only.append(sum(map(len, said)))
            wholes.append(len(ids) + sum(map(len, said)) + sum(map(len, heard)))
        print(
            f"{folder.name} level {level}: prompt mean {mean(prompts):.0f} max {max(prompts)}, "
            f"expert turns mean {mean(turns_only):.0f}, "
            f"whole demonstration mean {mean(wholes):.0f} max {max(wholes)}"
        )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compare", type=Path, help="a folder with another tokenizer.json")
    arguments = parser.parse_args()
    if arguments.compare is None:
        save(train(), TARGET)
    report(TARGET)
    if arguments.compare is not None:
        report(arguments.compare)


if __name__ == "__main__":
    main()
