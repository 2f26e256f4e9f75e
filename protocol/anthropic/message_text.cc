#include "protocol/anthropic/message_text.h"

#include <algorithm>

#include "base/json_text.h"

namespace reprise::protocol::anthropic {

void append_usage(std::string& out, const CacheReport& cache, std::uint32_t prompt_tokens,
                  std::uint32_t output_tokens) {
  const std::uint32_t read = std::min(cache.restored_tokens, prompt_tokens);
  const std::uint32_t kept = std::min(cache.kept_tokens, prompt_tokens);
  const std::uint32_t created = kept > read ? kept - read : 0;
  out += "{\"input_tokens\":";
  append_integer(out, prompt_tokens - read - created);
  out += ",\"cache_creation_input_tokens\":";
  append_integer(out, created);
  out += ",\"cache_read_input_tokens\":";
  append_integer(out, read);
  out += ",\"output_tokens\":";
  append_integer(out, output_tokens);
  out += '}';
}

void append_stop(std::string& out, const Finished& finished, bool has_calls) {
  std::string_view reason = "end_turn";
  if (finished.reason == FinishReason::kLength) {
    reason = "max_tokens";
  } else if (!finished.stop.empty()) {
    reason = "stop_sequence";
  } else if (has_calls) {
    reason = "tool_use";
  }
  out += ",\"stop_reason\":\"";
  out += reason;
  out += "\",\"stop_sequence\":";
  if (finished.stop.empty()) {
    out += "null";
  } else {
    append_json_string(out, finished.stop);
  }
}

void append_opening(std::string& out, const std::string& id, std::string_view model) {
  out += "{\"id\":\"msg_" + id + "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":";
  append_json_string(out, model);
}

}  // namespace reprise::protocol::anthropic
