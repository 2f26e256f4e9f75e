"""A conversation as the model sees it; models/builtin/chat_template.jinja renders the same."""


def render(messages, thinking=False, generation_prompt=True):
    """messages: dicts with role and content, without tools or thoughts of their own."""
    text = "".join(f"<|im_start|>{m['role']}\n{m['content'].strip()}<|im_end|>\n" for m in messages)
    if generation_prompt:
        text += "<|im_start|>assistant\n" + ("<think>\n" if thinking else "")
    return text


def training_pieces(dialogue):
    """(text, weight) of one dialogue: what the assistant says counts fully, the rest a little."""
    little, full = 0.05, 1.0
    pieces = []
    if dialogue.system:
        pieces.append((f"<|im_start|>system\n{dialogue.system}<|im_end|>\n", little))
    for i, turn in enumerate(dialogue.turns):
        pieces.append((f"<|im_start|>user\n{turn.user}<|im_end|>\n<|im_start|>assistant\n", little))
        reply = turn.reply + "<|im_end|>"
        if dialogue.thinking and i == len(dialogue.turns) - 1:  # earlier thoughts are not kept in the history
            pieces.append(("<think>\n", 0.0))
            reply = f"{turn.thought}\n</think>\n\n{reply}"
        pieces.append((reply, full))
        pieces.append(("\n", little))
    return pieces
