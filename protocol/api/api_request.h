#pragma once
// A request for text, common to all generating APIs: the engine's request, and what the server needs besides.
// The reply's format is the API's own (protocol/api/endpoint.h).
//
// The caller fills in the request's ID, its cache namespace, its tenant and priority, and the opening of a
// forced tool call.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/chat/chat_request.h"
#include "protocol/service.h"

namespace reprise::protocol {

struct ApiRequest {
  GenerateRequest generate;
  std::vector<Prompt> further_prompts{};  // each is answered like generate.prompt
  bool stream = false;
  bool any_model = false;  // any name selects the model if the server has only one
  ToolChoice tool_choice{};
  bool one_call = false;  // at most one tool call per reply; text after it is dropped
  std::string cache_salt{};
  std::optional<Priority> priority{};
  std::string reasoning_budget_field{};       // the field generate.reasoning_budget was read from
  std::vector<std::string> unknown_fields{};  // named as in field_rules.h
};

}  // namespace reprise::protocol
