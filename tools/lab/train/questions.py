"""Held-out questions: dialogues with other names, things and orders than training saw, and what the last reply must hold."""

import random
import re

import numbers_talk
from dialogue import Dialogue, Turn, write_dialogue
from words import Words


def recall_dialogue(r, turns, skills=("recall",), corrected=False):
    """A dialogue of `turns` turns whose last asks for something said before, and changed since if `corrected`."""
    while True:
        dialogue = write_dialogue(r, turns, held_out=True)
        last = dialogue.turns[-1]
        if last.skill in skills and last.value and (last.corrected or not corrected):
            return dialogue


def number_dialogue(r, kind):
    """One turn with a sum or a count."""
    w = Words(r, held_out=True)
    user, reply, thought = getattr(numbers_talk, kind)(w)
    value = reply.rstrip(".") if kind in ("count", "compare") else re.findall(r"\d+", reply)[-1]
    return Dialogue(None, [Turn(user, reply, thought, value)], False)


def holds(text, value):
    return re.search(r"(?<!\w)" + re.escape(value.lower()) + r"(?!\w)", text.lower()) is not None


def is_right(turn, text):
    """All that was asked for is in the reply, and nothing else that was told."""
    values = turn.value if isinstance(turn.value, tuple) else (turn.value,)
    return all(holds(text, value) for value in values) and not any(holds(text, wrong) for wrong in turn.wrong)


def sets(seed, count):
    """(name, dialogues): recall after so many turns, then other skills."""
    out = []
    for turns in (2, 4, 6, 8, 10, 12, 15, 20):
        r = random.Random(f"{seed}/recall/{turns}")
        out.append((f"recall, {turns} turns", [recall_dialogue(r, turns) for _ in range(count)]))
    r = random.Random(f"{seed}/corrected")
    out.append(("corrected", [recall_dialogue(r, r.randint(3, 12), corrected=True) for _ in range(count)]))
    for skill in ("recall two", "check", "list", "unknown", "count", "summary"):
        r = random.Random(f"{seed}/{skill}")
        out.append((skill, [recall_dialogue(r, r.randint(2, 12), (skill,)) for _ in range(count)]))
    for kind in ("add", "subtract", "multiply", "count", "compare", "problem"):
        r = random.Random(f"{seed}/numbers/{kind}")
        out.append((f"numbers, {kind}", [number_dialogue(r, kind) for _ in range(count)]))
    return out
