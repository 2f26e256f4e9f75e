#pragma once
// From the JSON body of POST /v1/responses, and of those beside it that take the same, to what it asks for.
//
// Fields that change nothing about the answer are accepted, and named in it where they are not known; one that would and is not supported is refused by its name.
//
// Threading: a pure function, but for the store that it reads.

#include <string>

#include "base/json.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/responses/response_store.h"
#include "protocol/responses/response_tools.h"

namespace reprise::protocol::responses {

enum class ResponseKind : std::uint8_t {
  kResponse,
  kCompactionItem,  // the input ends with a compaction_trigger: the response is one compaction item
  kCompaction,      // of /v1/responses/compact
};

struct ResponseRequest {
  ApiRequest asked;
  ResponseKind kind = ResponseKind::kResponse;
  std::vector<ResponseTool> tools{};  // that the model is told of
  Json kept{};                        // kCompaction: items that stay as they are
  Json frame = Json::object();        // what the response repeats of the request: instructions, tools, …
  Json messages{};  // of the conversation, without instructions; null: nobody wants them later
  bool store = true;
  bool seals_reasoning = false;  // include has "reasoning.encrypted_content"
};

/// `kind`: kResponse or kCompaction, by the path. Throws BadRequest.
ResponseRequest read_response_request(const Json& body, const BodyLimits& limits, ResponseStore& store,
                                      const std::string& tenant, ResponseKind kind = ResponseKind::kResponse);

}  // namespace reprise::protocol::responses
