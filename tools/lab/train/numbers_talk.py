"""Turns with numbers: sums, counting, comparing. Each is (user, reply, thought)."""

from words import NUMBER_WORDS


def _add_thought(x, y):
    if x < 10 and y < 10:
        return f"{x} + {y} = {x + y}."
    ones = x % 10 + y % 10
    tens = x // 10 * 10 + y // 10 * 10
    return f"{x % 10} + {y % 10} = {ones}. {x // 10 * 10} + {y // 10 * 10} = {tens}. {tens} + {ones} = {x + y}."


def add(w):
    top = w.r.choice([10, 10, 20, 50, 99])
    x, y = w.r.randint(0, top), w.r.randint(0, top)
    question = w.r.choice(["What is {x} + {y}?", "What is {x} plus {y}?", "{x} + {y} = ?", "How much is {x} plus {y}?", "Add {x} and {y}.",
                           "{x} + {y}", "What is {x}+{y}?", "Calculate {x} + {y}."])
    reply = f"{x} + {y} = {x + y}." if w.r.random() < 0.8 else f"{x} plus {y} is {x + y}."
    return question.replace("{x}", str(x)).replace("{y}", str(y)), reply, _add_thought(x, y)


def subtract(w):
    top = w.r.choice([10, 10, 20, 50, 99])
    x, y = w.r.randint(0, top), w.r.randint(0, top)
    x, y = max(x, y), min(x, y)
    question = w.r.choice(["What is {x} - {y}?", "What is {x} minus {y}?", "{x} - {y} = ?", "How much is {x} minus {y}?", "Take {y} away from {x}.",
                           "{x} - {y}"])
    return question.replace("{x}", str(x)).replace("{y}", str(y)), f"{x} - {y} = {x - y}.", f"{x} - {y} = {x - y}."


def multiply(w):
    x, y = w.r.randint(0, 10), w.r.randint(0, 12)
    question = w.r.choice(["What is {x} * {y}?", "What is {x} times {y}?", "{x} x {y} = ?", "How much is {x} times {y}?", "{x} times {y}"])
    return question.replace("{x}", str(x)).replace("{y}", str(y)), f"{x} times {y} is {x * y}.", f"{x} * {y} = {x * y}."


def compare(w):
    x, y = w.r.sample(range(100), 2)
    if w.r.random() < 0.5:
        return f"Which is bigger, {x} or {y}?", f"{max(x, y)} is bigger than {min(x, y)}.", f"{max(x, y)} is bigger."
    return f"Which is smaller, {x} or {y}?", f"{min(x, y)} is smaller than {max(x, y)}.", f"{min(x, y)} is smaller."


def count(w):
    kind = w.r.random()
    if kind < 0.45:
        low = w.r.choice([1, 1, w.r.randint(2, 30)])
        high = low + w.r.randint(2, 11)
        question = w.r.choice(["Count from {x} to {y}.", "Please count from {x} to {y}.", "Can you count from {x} to {y}?"])
        if low == 1 and w.r.random() < 0.4:
            question = "Count to {y}."
        numbers = range(low, high + 1)
        question = question.replace("{x}", str(low)).replace("{y}", str(high))
    elif kind < 0.7:
        high = w.r.randint(3, 20)
        low = w.r.choice([0, 1, 1, max(0, high - w.r.randint(2, 8))])
        numbers = range(high, low - 1, -1)
        question = f"Count down from {high} to {low}." if w.r.random() < 0.7 else f"Count backwards from {high} to {low}."
    else:
        step = w.r.choice([2, 3, 5, 10])
        low = w.r.choice([step, 0])
        high = low + step * w.r.randint(2, 9)
        numbers = range(low, high + 1, step)
        question = f"Count by {step}s from {low} to {high}." if w.r.random() < 0.6 else f"Count from {low} to {high} in steps of {step}."
    reply = ", ".join(map(str, numbers)) + "."
    return question, reply, f"I start with {numbers[0]} and end with {numbers[-1]}."


def after(w):
    x = w.r.randint(0, 98)
    if w.r.random() < 0.5:
        question = w.r.choice([f"What comes after {x}?", f"Which number comes after {x}?"])
        return question, f"After {x} comes {x + 1}.", f"{x} + 1 = {x + 1}."
    return f"Which number comes before {x + 1}?", f"Before {x + 1} comes {x}.", f"{x + 1} - 1 = {x}."


def problem(w):
    n, things = w("name"), w("countable")
    x, y = w.r.randint(1, 20), w.r.randint(1, 15)
    if w.r.random() < 0.5:
        more = w.r.choice(["gets {y} more", "finds {y} more", "buys {y} more"]).replace("{y}", str(y))
        return (f"{n} has {x} {things} and {more}. How many {things} does {n} have now?",
                f"{n} has {x + y} {things} now.", f"{x} + {y} = {x + y}.")
    x, y = max(x, y), min(x, y)
    less = w.r.choice(["loses {y}", "gives {y} away", "sells {y}"]).replace("{y}", str(y))
    return (f"{n} has {x} {things} and {less}. How many {things} are left?", f"{n} has {x - y} {things} left.",
            f"{x} - {y} = {x - y}.")


def as_word(w):
    x = w.r.randint(0, 20)
    if w.r.random() < 0.5:
        return f"Write {x} as a word.", f"{NUMBER_WORDS[x].capitalize()}.", f"{x} is {NUMBER_WORDS[x]}."
    return f"Write {NUMBER_WORDS[x]} as a number.", f"{x}.", f"{NUMBER_WORDS[x]} is {x}."


def too_big(w):
    low = w.r.choice([100, 100, 1000, 10000])
    x, y = w.r.randint(low, 10 * low), w.r.randint(2, 999)
    if w.r.random() < 0.3:
        x, y = y, x
    sign = w.r.choice(["+", "plus", "-", "minus", "*", "times", "/", "divided by"])
    if w.r.random() < 0.3:
        x, y, sign = w.r.randint(13, 99), w.r.randint(11, 99), w.r.choice(["*", "times", "x"])
    question = w.r.choice(["What is {s}?", "{s} = ?", "{s}", "How much is {s}?", "Calculate {s}."])
    return question.replace("{s}", f"{x} {sign} {y}"), "These numbers are too big for me.", "I can only do small sums."


def talk(w):
    if w.r.random() < 0.05:
        return too_big(w)
    return w.r.choice((add, add, add, subtract, subtract, multiply, compare, count, count, after, problem, as_word))(w)
