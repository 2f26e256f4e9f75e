#pragma once
// Chats that go on from the assistant's last message, instead of answering it; and what else llama-server adds to them.
//
// Threading: pure functions.

#include "protocol/api/fields.h"
#include "protocol/openai/request.h"

namespace reprise::protocol::openai {

/// Where continue_final_message says so, or llama-server would do so, the last message becomes the reply's opening.
/// Throws BadRequest.
void read_continuation(const Fields& fields, Manners manners, ChatPrompt& chat);

/// llama-server tells templates what day it is, by names that some of them look for.
void tell_date(Manners manners, ChatPrompt& chat);

}  // namespace reprise::protocol::openai
