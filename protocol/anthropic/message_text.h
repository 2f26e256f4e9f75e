#pragma once
// What streams and whole answers of Anthropic's API have in common, as JSON text.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/sampled_turns.h"
#include "protocol/service.h"

namespace reprise::protocol::anthropic {

/// What stands in the place of a proof that a thinking block is the model's own: clients want one to be there.
/// The signature of a reply's thinking. It names the turn, for when the client sends it back (protocol/sampled_turns.h).
inline constexpr std::string_view kSignature = "reprise-turn:";
inline std::string signature_of(const std::string& reply_id) {
  return std::string(kSignature) + turn_id(reply_id, 0);
}

/// {"input_tokens":…,"cache_creation_input_tokens":…,"cache_read_input_tokens":…,"output_tokens":…}: together the
/// first three are the prompt. Read is what was restored; created what stands behind that in the cache because of this
/// request; input the rest.
void append_usage(std::string& out, const CacheReport& cache, std::uint32_t prompt_tokens,
                  std::uint32_t output_tokens);

/// ,"stop_reason":…,"stop_sequence":…
void append_stop(std::string& out, const Finished& finished, bool has_calls);

/// {"id":…,"type":"message","role":"assistant","model":… without the closing brace.
void append_opening(std::string& out, const std::string& id, std::string_view model);

}  // namespace reprise::protocol::anthropic
