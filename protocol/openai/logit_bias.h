#pragma once
// Biases of tokens, in the forms that clients have for them.
//
//   {"15": -3}                               by id
//   {" the": 2}                              by text, every token of it: llama-server's alone
//   [[15, -3], [" the", 2], [7, false]]      as a list, where false is a ban: llama-server's alone
//
// Threading: a pure function.

#include "protocol/api/body_limits.h"
#include "protocol/api/fields.h"
#include "protocol/openai/request.h"
#include "protocol/service.h"

namespace reprise::protocol::openai {

/// Into sampling.logit_bias and text_bias. Throws BadRequest.
void read_logit_bias(const Fields& fields, const BodyLimits& limits, Manners manners,
                     GenerateRequest& request);

}  // namespace reprise::protocol::openai
