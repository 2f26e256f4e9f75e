#pragma once
// POST /v1/embeddings: the last hidden state of each input, pooled and of length 1.
//
// input is a text, a list of token ids, or an array of either; encoding_format is float or base64 (little-endian floats
// of 32 bits); dimensions keeps so many of the first values, and the length is 1 again. Of our own: pooling, last or
// mean, and normalize, true unless it is said.
//
// Threading: a pure function.

#include <memory>

#include "base/json.h"
#include "protocol/api/endpoint.h"

namespace reprise::protocol::openai {

/// Throws BadRequest.
std::unique_ptr<GenerationCall> embedding_call(const Json& body, const BodyLimits& limits);

}  // namespace reprise::protocol::openai
