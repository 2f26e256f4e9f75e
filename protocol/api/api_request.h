#pragma once
// What a client asks for, as every API that generates can say it: the engine's request, and what whoever
// serves it has to know besides. How the reply is to look is the API's own (protocol/api/endpoint.h).
//
// What is left to whoever calls: the request's id, its name space, its tenant and priority, and the opening
// of a forced tool call.
//
// Threading: a plain value.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/service.h"

namespace reprise::protocol {

/// Whether the reply to a chat has to be a tool call.
struct ToolChoice {
  enum class Mode : std::uint8_t { kNone, kAuto, kRequired, kNamed } mode = Mode::kNone;
  std::string name{};  // for kNamed
};

struct ApiRequest {
  GenerateRequest generate;
  std::vector<Prompt> further_prompts{};  // each is to be answered as generate.prompt is
  bool stream = false;
  bool any_model = false;  // where one alone is served, it is meant by every name
  ToolChoice tool_choice{};
  bool one_call = false;  // of a tool in a reply; what comes behind it is left out
  std::string cache_salt{};
  std::optional<Priority> priority{};
  std::string reasoning_budget_field{};       // that generate.reasoning_budget was read from
  std::vector<std::string> unknown_fields{};  // as field_rules.h names them
};

}  // namespace reprise::protocol
