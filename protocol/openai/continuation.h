#pragma once
// Chats that go on from the assistant's last message, instead of answering it.
//
// Threading: a pure function.

#include "protocol/api/fields.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::openai {

/// Where continue_final_message says so, or llama-server would do so, the last message becomes the reply's opening.
/// Throws BadRequest.
void read_continuation(const Fields& fields, Manners manners, ChatPrompt& chat);

}  // namespace reprise::protocol::openai
