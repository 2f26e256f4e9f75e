"""Facts about the people around the user, about the car, and about bare numbers and words to remember."""

from fact import Fact

MANY = "dogs cats birds horses rabbits fish hamsters turtles sisters brothers friends cousins sons daughters children".split()


def _home(w):
    x = w("relative")
    return Fact("home of " + x, f"my {x} lives in {{v}}", f"your {x} lives in {{v}}", f"where my {x} lives", f"where your {x} lives",
                [f"Where does my {x} live?", f"Which town does my {x} live in?", f"Where is my {x}'s home?"], lambda: w("town"), short_fix=False)


def _age(w):
    x = w("relative")
    return Fact("age of " + x, f"my {x} is {{v}} years old", f"your {x} is {{v}} years old", f"the age of my {x}", f"the age of your {x}",
                [f"How old is my {x}?", f"What is the age of my {x}?", f"What is my {x}'s age?"], lambda: w.number(1, 99), short_fix=False)


def _taste(w):
    kind = w.r.choice(["food", "fruit", "sport", "drink", "animal"])
    if w.r.random() < 0.5:
        x = w("relative")
        mine, yours = f"my {x}", f"your {x}"
    else:
        mine = yours = w("name")
    return Fact("taste of " + mine, mine + " likes {v}", yours + " likes {v}", f"what {mine} likes", f"what {yours} likes",
                [f"What does {mine} like?", f"Do you know what {mine} likes?"], lambda: w(kind), [mine[0].upper() + mine[1:] + " loves {v}."],
                short_fix=False)


def _together(w):
    x = w.r.choice(MANY)
    return Fact("names of " + x, f"my {x} are called {{v}}", f"your {x} are called {{v}}", f"the names of my {x}", f"the names of your {x}",
                [f"What are my {x} called?", f"What are the names of my {x}?", f"Who are my {x}?"],
                lambda: " and ".join(w.several("name", 2)),
                [f"I have two {x}, {{v}}.", f"I have two {x} called {{v}}.", f"My two {x} are called {{v}}.", f"{{v}} are my {x}.",
                 f"I have two {x}. Their names are {{v}}."])


def _car(w):
    return Fact("car", "I parked the car {v}", "you parked the car {v}", "where I parked the car", "where you parked the car",
                ["Where did I park the car?", "Where is the car?", "Where did I park?", "Where did I leave the car?"], lambda: w("spot"),
                ["The car is {v}.", "I left the car {v}."], short_fix=False)


def _phone(w):
    digits = w.r.randint(4, 7)
    return Fact("phone number", "my phone number is {v}", "your phone number is {v}", "my phone number", "your phone number",
                ["What is my phone number?", "What's my phone number?", "What is my number?", "Tell me my phone number."],
                lambda: w.number(10 ** (digits - 1), 10 ** digits - 1))


def _number(w):
    digits = w.r.randint(1, 6)
    return Fact("bare number", "the number to remember is {v}", "the number to remember is {v}", "the number", "the number",
                ["Which number did I tell you to remember?", "What number did I ask you to remember?", "Which number should you remember?",
                 "What was the number?", "What is the number?"], lambda: w.number(10 ** (digits - 1), 10 ** digits - 1),
                ["Remember the number {v}.", "Please remember the number {v}.", "Remember {v}.", "Please remember this number: {v}."])


def _word(w):
    return Fact("bare word", "the word to remember is {v}", "the word to remember is {v}", "the word", "the word",
                ["Which word did I tell you to remember?", "What word did I ask you to remember?", "Which word should you remember?",
                 "What was the word?", "What is the word?"], lambda: w("secret"),
                ["Remember the word {v}.", "Please remember the word {v}.", "Please remember this word: {v}."])


KINDS = ((_home, 2), (_age, 2), (_taste, 2), (_together, 2), (_car, 1), (_phone, 2), (_number, 1), (_word, 1))
