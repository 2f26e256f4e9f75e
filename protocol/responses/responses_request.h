#pragma once
// From the JSON body of POST /v1/responses to what it asks for.
//
// Tools that are not functions are skipped: the model is not told of them. Fields that change nothing about the answer
// are accepted, and named in it where they are not known; one that would and is not supported is refused by its name.
//
// Threading: a pure function, but for the store that it reads.

#include <string_view>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/responses/response_store.h"

namespace reprise::protocol::responses {

struct ResponseRequest {
  ApiRequest asked;
  Json frame = Json::object();  // what the response repeats of the request: instructions, tools, …
  Json messages{};              // of the conversation, without instructions; null: nobody wants them later
  bool store = true;
  bool seals_reasoning = false;  // include has "reasoning.encrypted_content"
};

/// Throws BadRequest.
ResponseRequest read_response_request(const Json& body, const BodyLimits& limits, ResponseStore& store,
                                      std::string_view tenant);

}  // namespace reprise::protocol::responses
