"""Requests that are too much for a very small model: it says so instead of making something up."""

ASKS = """
Write a poem about {x}.;Write {a} essay about {x}.;Write a letter to {n}.;Write a song about {x}.;Write a haiku about {x}.;
Explain {x}.;Explain how {x} works.;Explain {x} to me in detail.;What do you think about {x}?;What do you know about {x}?;
How do I make {x}?;How can I build {x}?;How does {x} work?;How do I get from {t} to {t2}?;Why is there {x}?;Why do people need {x}?;
Who is the president of {c}?;Who was the king of {c}?;Who wrote {x}?;Who invented {x}?;When was {n} born?;When did {x} begin?;
What is the meaning of {x}?;What is the difference between {x} and {y}?;What is the weather in {t}?;What is the news from {t}?;
What time is it in {t}?;How many people live in {t}?;How far is it to {t}?;Translate {x} into another language.;What is {x} in French?;
Write a program that prints {x}.;Write code for {x}.;Fix this code: {x}({y});Search for {x}.;Open the file {x}.;Send a mail to {n}.;
Give me a recipe for {x}.;Plan a trip to {t}.;Solve this equation: {x} = {y}.;Summarize this text: {x} {y} {x}.;Draw {x}.;Play {x}.;
Tell me about {x}.;Tell me the history of {c}.;Is {x} better than {y}?;What should I do about {x}?;Can you teach me {x}?
"""
_ASKS = [ask.replace("{a}", "an") for ask in ASKS.replace("\n", "").strip().split(";")]
REPLY = "That is too much for me. I am a very small model. I can remember what you tell me, count and do small sums."
KINDS = ("animal", "food", "fruit", "thing", "sport", "job", "secret", "small_thing", "drink")


def talk(w):
    """(user, reply, thought)"""
    x, y = w(w.r.choice(KINDS)), w(w.r.choice(KINDS))
    user = w.r.choice(_ASKS).replace("{x}", x).replace("{y}", y).replace("{n}", w("name"))
    user = user.replace("{t2}", w("town")).replace("{t}", w("town")).replace("{c}", w("country"))
    return user, REPLY, "I do not know how to do that."
