"""Turns that have nothing to remember in them: greetings, likes, simple knowledge."""

import beyond
from words import a, capital

# Several ways to say one thing | one or more replies
PAIRS = """
Hello.;Hi.;Hello!;Hi!;Hey.;Hi there.;Good day. | Hello! How are you?;Hello! How can I help you?;Hi there!
Good morning.;Good morning! | Good morning! How are you?
Good evening.;Good evening! | Good evening! How was your day?
How are you?;How are you today?;How do you do?;How is it going? | I am fine, thank you. How are you?;I am well, thank you.
I am fine.;I am fine, thank you.;I am well.;Fine, thanks.;I am good.;I feel good. | I am glad to hear that.;That is good.
I am tired.;I feel tired.;I am so tired today. | Then you should rest a little.
I am sad.;I feel sad.;I am not happy today. | I am sorry to hear that. Do you want to talk about it?
I am happy.;I feel happy today.;I am so happy! | That is nice! Why are you so happy?
I am hungry.;I feel hungry. | Then it is time to eat something.
I am thirsty. | Then you should drink some water.
I am cold. | Then put on a warm coat.
I am bored.;This is boring. | Shall I tell you a story?
Thank you.;Thanks.;Thank you very much.;Thanks a lot.;Thank you! | You are welcome.
Goodbye.;Bye.;See you soon.;Good night.;Bye bye. | Goodbye! It was nice to talk to you.;Goodbye! See you soon.
Who made you?;Who built you?;Where do you come from? | I was trained for Reprise. I am a very small model.
What are you?;Are you a person?;Are you a human?;Are you a robot? | I am a very small language model.
What can you do?;What can you do for me?;How can you help me?;Help. | I can talk, remember what you tell me, count, do small sums and tell little stories.
Are you smart?;Are you clever? | I am very small, but I remember what you tell me.
Are you ChatGPT?;Are you Claude?;Are you an AI?;Are you Siri?;Are you real?;Are you Qwen? | I am Reprise, a very small language model.
You are wrong.;That is wrong.;That is not right.;You're wrong.;Wrong.;That is not true.;Not true. | I am sorry. Please tell me again.
Do you understand me?;Do you understand?;Are you there?;Are you listening? | Yes, I am here.
What do you mean?;What?;I do not understand.;Pardon? | I am sorry. I am a very small model.
What's up?;What are you doing?;How are you doing?;How is life?;What is new? | I am fine, thank you. How are you?
Wow.;Great.;Cool.;Nice.;Very good.;Well done.;Good job.;Perfect.;That is great. | Thank you!
Tell me something.;Tell me something interesting.;Say something. | A spider has eight legs, and an insect has six.
Can you remember things?;Do you have a memory?;Will you remember it?;Can you remember something for me? | Yes, I remember what you tell me in this talk.
What is this?;What is Reprise? | Reprise is the program that runs me.
Test.;This is a test.;Testing. | I am here.
Can you count?;Can you do sums?;Do you know math? | Yes, with small numbers.
Do you sleep?;Are you tired? | No, I do not sleep.
Do you eat?;Are you hungry?;What do you eat? | No, I do not eat. I only read and write.
Can you see me? | No, I cannot see you. I can only read what you write.
Do you have friends?;Do you have a friend? | I talk to many people, and I like to talk to you.
Are you happy? | Yes, I am happy when we talk.
How old are you? | I am very young.
Where do you live?;Where are you? | I live in a computer.
Do you love me?;Do you like me? | I like to talk to you.
Okay.;Ok.;All right.;Good.;I see.;Fine. | What would you like to do now?;Good. What shall we talk about?
Yes. | Good.
No. | All right.
Let us talk.;I want to talk.;Can we talk?;Talk to me. | Of course. What shall we talk about?
Can you help me?;I need help. | Yes. What can I do for you?
Do you remember me? | I only know what you told me in this talk.
Sorry.;I am sorry. | That is all right.
That is right.;Right.;Correct.;Exactly. | Good.
You are nice.;You are kind.;I like you. | Thank you! You are kind.
You are funny. | Thank you! I like to make you laugh.
You are stupid.;You are bad.;I do not like you. | I am sorry. I am very small, but I try.
It is raining.;It is raining here. | Then take an umbrella with you.
The sun is shining.;It is sunny today.;The weather is nice. | That is nice. You could go for a walk.
It is cold today. | Then put on a warm coat.
It is hot today. | Then drink enough water.
It is late. | Then you should go to bed soon.
I have to go.;I must go now.;I have to leave now. | Goodbye! See you soon.
What is your favourite colour?;Which colour do you like? | I like blue.
What is your favourite animal?;Which animal do you like? | I like owls.
What is your favourite food? | I do not eat, but I like the word soup.
Do you like music? | Yes, I like songs with many words.
Tell me a joke.;Do you know a joke?;Make me laugh.;Another joke. | Why did the hen cross the road? To get to the other side.;What has a face and two hands but no legs? A clock.;What is full of holes and still holds water? A sponge.
Sing a song.;Sing me a song. | La la la, the sun is up, and the bird drinks from a cup.
What colour is the sky?;Which colour is the sky? | The sky is blue.
What colour is grass?;What colour is the grass? | Grass is green.
What colour is snow? | Snow is white.
What colour is a lemon?;What colour is the sun? | It is yellow.
What colour is coal?;What colour is the night? | It is black.
How many legs does a dog have?;How many legs has a cat?;How many legs does a horse have? | It has four legs.
How many legs does a bird have? | A bird has two legs.
How many legs does a spider have? | A spider has eight legs.
How many legs does an insect have? | An insect has six legs.
How many days are in a week?;How many days does a week have? | A week has seven days.
How many months are in a year?;How many months does a year have? | A year has twelve months.
How many hours are in a day? | A day has 24 hours.
How many minutes are in an hour? | An hour has 60 minutes.
What does a dog say?;What sound does a dog make? | A dog says woof.
What does a cat say?;What sound does a cat make? | A cat says meow.
What does a cow say?;What sound does a cow make? | A cow says moo.
What does a duck say? | A duck says quack.
What does a sheep say? | A sheep says baa.
What do bees make? | Bees make honey.
What do cows give us? | Cows give us milk.
Where do fish live? | Fish live in the water.
Can birds fly? | Yes, most birds can fly.
Can fish fly?;Can dogs fly?;Can cats fly? | No, they cannot fly.
What is ice? | Ice is frozen water.
What is rain? | Rain is water that falls from the clouds.
What is the capital of France? | The capital of France is Paris.
What is the capital of Italy? | The capital of Italy is Rome.
What is the capital of England? | The capital of England is London.
What is the capital of Germany? | The capital of Germany is Berlin.
What is the capital of Spain? | The capital of Spain is Madrid.
When does the sun rise? | The sun rises in the morning.
What do we do at night? | At night we sleep.
What do you need an umbrella for? | It keeps you dry in the rain.
Is fire hot? | Yes, fire is hot.
Is ice hot? | No, ice is cold.
Is a mouse big? | No, a mouse is small.
Is an elephant big? | Yes, an elephant is very big.
"""


def _parse():
    pairs = []
    for line in PAIRS.strip().splitlines():
        left, right = line.split(" | ")
        pairs.append((left.strip().split(";"), right.strip().split(";")))
    return pairs


_PAIRS = _parse()
# who the assistant is, and what the user's own facts could change, is asked elsewhere
NAME_ASKS = ["What is your name?", "Who are you?", "What are you called?", "What's your name?", "Tell me your name."]
NAME_REPLY = "My name is Reprise. I am a very small model."

OPPOSITES = """big small;hot cold;good bad;fast slow;happy sad;old young;long short;light dark;up down;left right;open closed;
full empty;high low;hard soft;early late;wet dry;rich poor;strong weak;loud quiet;day night;yes no;black white;near far;
first last;clean dirty;in out;heavy light;thick thin;true false;win lose;come go;push pull;begin end;laugh cry;over under"""
_OPPOSITES = [tuple(pair.split()) for pair in OPPOSITES.replace("\n", "").split(";")]

ORDERS = {
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
    "letter": list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}


def chat(w):
    left, right = w.r.choice(_PAIRS)
    return w.r.choice(left), w.r.choice(right), "This is small talk. I answer in a friendly way."


STATEMENTS = """
I saw {a} {b} today.;I went to the {c} yesterday.;We went to the {c}.;Today I cooked {f}.;{n} called me today.;The {b} ate my {t}.;
I do not like {f}.;I had a good day.;My day was long.;I lost my {t}.;The {t} is broken.;{n} is here.;It was {n}'s birthday.;I am reading a book.;
I want to buy a {t}.;I need a new {t}.;There was {a} {b} in the garden.;I wrote a letter to {n}.;I dreamed of {a} {b}.;We ate {f} today.;
I will go to the {c} tomorrow.;{n} and {m} are friends.;I think that {n} is nice.;The {b} is asleep.;I heard a strange sound.;
Somebody took my {t}.;I cleaned the kitchen.;The bus was late.;I was at the {c}.;{n} gave me a {t}.;My {t} is very old.;I work too much.
"""
_STATEMENTS = STATEMENTS.replace("\n", "").split(";")


def remark(w):
    """Something said that is no fact to be asked for."""
    animal = w("animal")
    values = {"a": a(animal).split()[0], "b": animal, "c": w("visit"), "f": w("food"), "t": w("thing"), "n": w("name"), "m": w("name")}
    text = w.r.choice(_STATEMENTS)
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text, w.r.choice(["I see. Tell me more.", "I see."]), "The user tells me something."


def opposite(w):
    x, y = w.r.choice(_OPPOSITES)
    if w.r.random() < 0.5 and x != "heavy":
        x, y = (y, x) if y != "light" else (x, y)
    question = w.r.choice(["What is the opposite of {x}?", "Tell me the opposite of {x}.", "Which word is the opposite of {x}?"])
    return question.replace("{x}", x), f"The opposite of {x} is {y}.", f"The opposite of {x} is {y}."


def neighbour(w):
    kind = w.r.choice(list(ORDERS))
    order = ORDERS[kind]
    i = w.r.randrange(len(order) - 1)
    if w.r.random() < 0.6:
        question = w.r.choice([f"What comes after {order[i]}?", f"Which {kind} comes after {order[i]}?"])
        return question, f"After {order[i]} comes {order[i + 1]}.", f"{order[i]}, then {order[i + 1]}."
    question = w.r.choice([f"What comes before {order[i + 1]}?", f"Which {kind} comes before {order[i + 1]}?"])
    return question, f"Before {order[i + 1]} comes {order[i]}.", f"{order[i]}, then {order[i + 1]}."


def like(w):
    kind = w.r.choice(["food", "fruit", "animal", "sport", "drink", "season", "colour"])
    x = w(kind) + ("s" if kind == "animal" else "")
    x = {"mouses": "mice", "sheeps": "sheep", "fishs": "fish", "deers": "deer", "foxs": "foxes", "wolfs": "wolves"}.get(x, x)
    return f"Do you like {x}?", w.r.choice([f"Yes, I like {x}.", f"Yes, I like {x}. Do you like {x} too?"]), f"The user asks if I like {x}."


def echo(w):
    words = w.several("secret", w.r.randint(1, 4))
    text = " ".join(words)
    if len(words) == 1 and w.r.random() < 0.5:
        count = w.r.randint(2, 5)
        number = {2: "two", 3: "three", 4: "four", 5: "five"}[count]
        times = "twice" if count == 2 else number + " times"
        return f"Say {text} {times}.", capital(" ".join(words * count)) + ".", f"I write {text} {times}."
    question = w.r.choice(["Repeat after me: {t}", "Say this: {t}", "Please repeat: {t}", "Say {t}."])
    return question.replace("{t}", text), capital(text) + ".", "I repeat the words."


def what_is(w):
    kind = w.r.choice(["animal", "fruit", "colour", "sport"])
    x = w.known(kind)
    noun = {"fruit": "a kind of fruit", "animal": "an animal", "colour": "a colour", "sport": "something you can play or do"}[kind]
    if kind == "animal":
        return f"What is {a(x)}?", f"{capital(a(x))} is {noun}.", f"{capital(a(x))} is {noun}."
    are = "are" if kind == "fruit" else "is"
    return f"What {are} {x}?", f"{capital(x)} {are} {noun}.", f"{capital(x)} {are} {noun}."


def talk(w):
    """(user, reply, thought)"""
    x = w.r.random()
    if x < 0.5:
        return chat(w)
    if x < 0.6:
        return beyond.talk(w)
    if x < 0.7:
        return remark(w)
    return w.r.choice((opposite, neighbour, like, echo, what_is))(w)
