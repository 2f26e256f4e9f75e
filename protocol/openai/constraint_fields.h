#pragma once
// What a request says its reply must be: OpenAI's response_format, and the fields that vLLM, SGLang and llama-server
// have for it.
//
// Threading: pure functions.

#include "protocol/api/fields.h"
#include "protocol/grammar/constraint.h"

namespace reprise::protocol::openai {

/// Kind kNone where nothing is asked for. Throws BadRequest, also where two fields ask.
grammar::Constraint read_constraint(const Fields& fields);

}  // namespace reprise::protocol::openai
