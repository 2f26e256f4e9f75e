"""The kinds of facts, and the ways to tell them, ask for them and correct them."""

import relations
from fact import Fact
from words import a, capital


def _name(w):
    return Fact("name", "my name is {v}", "your name is {v}", "my name", "your name",
                ["What is my name?", "Who am I?", "What am I called?", "Tell me my name.", "What's my name?"],
                lambda: w("name"), ["I am {v}.", "I'm {v}.", "Call me {v}.", "You can call me {v}.", "Hi, I'm {v}.", "Hello, I'm {v}.", "Hello, I am {v}.",
                                   "Hi, my name is {v}.", "Hello! My name is {v}.", "Good morning, I am {v}.", "{v} here.", "This is {v}."])


def _age(w):
    return Fact("age", "I am {v} years old", "you are {v} years old", "my age", "your age",
                ["How old am I?", "What is my age?", "Tell me how old I am."], lambda: w.number(5, 99), short_fix=False)


def _home(w):
    return Fact("home", "I live in {v}", "you live in {v}", "where I live", "where you live",
                ["Where do I live?", "Which town do I live in?", "Where is my home?", "In which city do I live?"],
                lambda: w("town"), ["My home is in {v}.", "I live in a small house in {v}."], short_fix=False)


def _origin(w):
    return Fact("origin", "I come from {v}", "you come from {v}", "where I come from", "where you come from",
                ["Where do I come from?", "Where am I from?", "Which country do I come from?"], lambda: w("country"),
                ["I am from {v}."], short_fix=False)


FAVOURITES = ("colour", "food", "animal", "number", "season", "day", "fruit", "drink", "sport", "town", "month")


def _favourite(w):
    x = w.r.choice(FAVOURITES)
    draw = (lambda: w.number(1, 99)) if x == "number" else (lambda: w(x))
    return Fact("favourite " + x, f"my favourite {x} is {{v}}", f"your favourite {x} is {{v}}", f"my favourite {x}",
                f"your favourite {x}", [f"What is my favourite {x}?", f"Which {x} do I like best?", f"What's my favourite {x}?",
                                        f"Tell me my favourite {x}."], draw, [f"I like {{v}} best of all {x}s."] if x == "colour" else [])


def _pet(w):
    x = w("pet")
    return Fact("pet " + x, f"my {x} is called {{v}}", f"your {x} is called {{v}}", f"the name of my {x}", f"the name of your {x}",
                [f"What is my {x} called?", f"What is the name of my {x}?", f"What is my {x}'s name?", f"Who is my {x}?"],
                lambda: w("pet_name"), [f"I have {a(x)} called {{v}}.", f"I have {a(x)}. Its name is {{v}}.",
                                        f"My {x}'s name is {{v}}.", f"I have {a(x)} named {{v}}."])


def _relative(w):
    x = w("relative")
    return Fact("relative " + x, f"my {x} is called {{v}}", f"your {x} is called {{v}}", f"the name of my {x}",
                f"the name of your {x}", [f"What is my {x} called?", f"What is the name of my {x}?", f"What is my {x}'s name?",
                                          f"Who is my {x}?"], lambda: w("name"),
                [f"My {x}'s name is {{v}}.", f"{{v}} is my {x}.", f"My {x} is {{v}}."])


def _belonging(w):
    x = w("thing")
    return Fact("colour " + x, f"my {x} is {{v}}", f"your {x} is {{v}}", f"the colour of my {x}", f"the colour of your {x}",
                [f"What colour is my {x}?", f"What is the colour of my {x}?", f"Which colour does my {x} have?"],
                lambda: w("colour"), [f"I have a {{v}} {x}.", f"I bought a {{v}} {x}.", f"The colour of my {x} is {{v}}."])


def _spot(w):
    x = w("small_thing")
    if w.r.random() < 0.5:
        return Fact("spot " + x, f"the {x} is {{v}}", f"the {x} is {{v}}", f"where the {x} is", f"where the {x} is",
                    [f"Where is the {x}?", f"Where can I find the {x}?", f"Where was the {x}?"], lambda: w("spot"),
                    [f"There is {a(x)} {{v}}."])
    return Fact("spot " + x, f"I put my {x} {{v}}", f"you put your {x} {{v}}", f"where I put my {x}", f"where you put your {x}",
                [f"Where did I put my {x}?", f"Where is my {x}?", f"I cannot find my {x}. Where is it?"], lambda: w("spot"),
                short_fix=False)


def _other_home(w):
    n = w("name")
    return Fact("home " + n, f"{n} lives in {{v}}", f"{n} lives in {{v}}", f"where {n} lives", f"where {n} lives",
                [f"Where does {n} live?", f"Which town does {n} live in?", f"Where is the home of {n}?"], lambda: w("town"),
                short_fix=False)


def _other_job(w):
    n = w("name")
    return Fact("job " + n, f"{n} is a {{v}}", f"{n} is a {{v}}", f"the job of {n}", f"the job of {n}",
                [f"What is {n}'s job?", f"What does {n} do?", f"What is the job of {n}?"],
                lambda: _no_vowel(w, "job"), [f"{n} works as a {{v}}."], short_fix=False)


def _no_vowel(w, kind):
    while True:
        word = w(kind)
        if word[0] not in "aeiou":
            return word


def _other_has(w):
    n, x = w("name"), w("thing")
    return Fact(f"has {n}", f"{n} has a {{v}} {x}", f"{n} has a {{v}} {x}", f"what {n} has", f"what {n} has",
                [f"What does {n} have?", f"Which colour is {n}'s {x}?", f"What colour is the {x} of {n}?"],
                lambda: _no_vowel(w, "colour"), short_fix=False)


def _owner(w):
    x = w("thing") if w.r.random() < 0.5 else f"{w('colour')} {w('thing')}"
    return Fact("owner " + x, f"the {x} belongs to {{v}}", f"the {x} belongs to {{v}}", f"who owns the {x}", f"who owns the {x}",
                [f"Who owns the {x}?", f"Whose is the {x}?", f"Who does the {x} belong to?", f"Who has the {x}?"],
                lambda: w("name"), [f"{{v}} owns the {x}.", f"I gave the {x} to {{v}}."], short_fix=False)


def _code(w):
    x = w.r.choice(["door", "gate", "safe", "bike lock", "box", "house", "phone"])
    digits = w.r.choice([3, 4, 4, 5])
    return Fact("code " + x, f"the code of the {x} is {{v}}", f"the code of the {x} is {{v}}", f"the code of the {x}",
                f"the code of the {x}", [f"What is the code of the {x}?", f"Which code opens the {x}?", f"Tell me the code of the {x}."],
                lambda: w.number(10 ** (digits - 1), 10 ** digits - 1))


def _secret(w):
    x = w.r.choice(["secret word", "password", "magic word"])
    return Fact(x, f"the {x} is {{v}}", f"the {x} is {{v}}", f"the {x}", f"the {x}",
                [f"What is the {x}?", f"What was the {x}?", f"Tell me the {x}.", f"Which word is the {x}?"], lambda: w("secret"))


def _room(w):
    x = w.r.choice(["room", "seat", "bus", "house", "ticket", "train"])
    return Fact("number " + x, f"the number of my {x} is {{v}}", f"the number of your {x} is {{v}}", f"the number of my {x}",
                f"the number of your {x}", [f"What is the number of my {x}?", f"Which number does my {x} have?", f"What is my {x} number?"],
                lambda: w.number(2, 999), [f"My {x} number is {{v}}."])


def _event(w):
    x = w("visit")
    return Fact("day " + x, f"I go to the {x} on {{v}}", f"you go to the {x} on {{v}}", f"when I go to the {x}",
                f"when you go to the {x}", [f"When do I go to the {x}?", f"On which day do I go to the {x}?"], lambda: w("day"),
                short_fix=False)


def _birthday(w):
    return Fact("birthday", "my birthday is in {v}", "your birthday is in {v}", "my birthday", "your birthday",
                ["When is my birthday?", "In which month is my birthday?", "Which month was I born in?"], lambda: w("month"),
                ["I was born in {v}."], short_fix=False)


def _meeting(w):
    n = w("name")
    return Fact("meeting " + n, f"I meet {n} at {{v}} o'clock", f"you meet {n} at {{v}} o'clock", f"when I meet {n}",
                f"when you meet {n}", [f"When do I meet {n}?", f"At what time do I meet {n}?"], lambda: w.number(1, 12), short_fix=False)


def _job(w):
    return Fact("job", "I work as a {v}", "you work as a {v}", "my job", "your job",
                ["What is my job?", "What do I do?", "What do I work as?", "What is my work?"], lambda: _no_vowel(w, "job"),
                ["I am a {v}.", "My job is to be a {v}."], short_fix=False)


def _price(w):
    x = w("thing")
    return Fact("price " + x, f"the {x} costs {{v}} coins", f"the {x} costs {{v}} coins", f"the price of the {x}",
                f"the price of the {x}", [f"How much does the {x} cost?", f"What is the price of the {x}?", f"How many coins does the {x} cost?"],
                lambda: w.number(2, 99), short_fix=False)


def _count(w):
    x = w("countable")
    return Fact("count " + x, f"I have {{v}} {x}", f"you have {{v}} {x}", f"how many {x} I have", f"how many {x} you have",
                [f"How many {x} do I have?", f"What number of {x} do I have?"], lambda: w.number(2, 40), short_fix=False)


def _like(w):
    kind = w.r.choice(["food", "fruit", "sport", "drink"])
    return Fact("like", "I like {v} very much", "you like {v} very much", "what I like", "what you like",
                ["What do I like?", "What do I like very much?"], lambda: w(kind), ["I love {v}."], short_fix=False)


def _your_name(w):
    return Fact("your name", "your name is {v}", "my name is {v}", "your name", "my name",
                ["What is your name?", "Who are you?", "What are you called?", "What's your name?"], lambda: w("name"),
                ["I will call you {v}.", "From now on you are {v}."])


KINDS = ((_name, 6), (_age, 2), (_home, 3), (_origin, 2), (_favourite, 6), (_pet, 4), (_relative, 4), (_belonging, 4), (_spot, 4),
         (_other_home, 2), (_other_job, 2), (_other_has, 2), (_owner, 3), (_code, 2), (_secret, 2), (_room, 2), (_event, 2),
         (_birthday, 1), (_meeting, 1), (_job, 2), (_price, 2), (_count, 2), (_like, 1), (_your_name, 1))
_MAKERS = [maker for maker, weight in KINDS + relations.KINDS for _ in range(weight)]


def draw_fact(w, taken):
    """A fact whose key is not in `taken`."""
    while True:
        fact = w.r.choice(_MAKERS)(w)
        if fact.key not in taken:
            return fact


SAY = ["{C}.", "{C}.", "{C}.", "{C}.", "By the way, {c}.", "Please remember that {c}.", "Remember that {c}.", "You should know that {c}.",
       "I want to tell you that {c}.", "Let me tell you something. {C}.", "Remember this: {c}.", "Do not forget that {c}.", "Also, {c}."]
SAID = ["Okay, {c}.", "I will remember that {c}.", "Good to know that {c}.", "All right, {c}.", "Okay.", "I will remember that.",
        "Thank you for telling me.", "Thank you, I will remember it.", "Got it, {c}."]
ASK = ["Do you remember {n}?", "Do you know {n}?", "Can you tell me {n}?", "I forgot {n}. Can you tell me?", "Please tell me {n}."]
FIX = ["No, {c}.", "Sorry, I was wrong. {C}.", "Actually, {c}.", "I made a mistake. {C}.", "Wait, {c}.", "That changed: {c} now.",
       "No, that is wrong. {C}."]
SHORT_FIX = ["No, it is {v}.", "Sorry, I meant {v}.", "No, {v}.", "I mean {v}, not {o}.", "It is {v}, not {o}.", "No, not {o}. It is {v}.",
             "Change it to {v}.", "Make it {v}.", "Now it is {v}."]
FIXED = ["Okay, {c}.", "Sorry. {C}.", "Thank you, now I know that {c}.", "I see, {c}.", "Okay, {v}, not {o}."]
UNKNOWN_ANSWER = "You have not told me {n}."


def say(fact, r):
    if fact.says and r.random() < 0.45:
        return fact.fill(r.choice(fact.says))
    clause = fact.fill(fact.mine)
    return r.choice(SAY).replace("{c}", clause).replace("{C}", capital(clause))


def said(fact, r):
    if fact.key == "name" and r.random() < 0.7:
        return r.choice(["Nice to meet you, {v}.", "Hello {v}!", "Hello, {v}. Nice to meet you."]).replace("{v}", fact.value)
    clause = fact.back()
    return r.choice(SAID).replace("{c}", clause).replace("{C}", capital(clause))


def ask(fact, r):
    if r.random() < 0.75:
        return r.choice(fact.asks), False
    return r.choice(ASK).replace("{n}", fact.noun), True


def answer(fact, r, polite):
    clause = fact.back()
    if polite and r.random() < 0.5:
        return "Yes, " + clause + "."
    if r.random() < 0.1:
        return "You told me that " + clause + "."
    return capital(clause) + "."


def fix(fact, r, just_said):
    """After fact.change()."""
    if just_said and fact.short_fix and r.random() < 0.6:
        text = r.choice(SHORT_FIX)
    else:
        text = r.choice(FIX)
    clause = fact.fill(fact.mine)
    return text.replace("{c}", clause).replace("{C}", capital(clause)).replace("{v}", fact.value).replace("{o}", fact.old)


def fixed(fact, r):
    clause = fact.back()
    text = r.choice(FIXED)
    return text.replace("{c}", clause).replace("{C}", capital(clause)).replace("{v}", fact.value).replace("{o}", fact.old)
