#pragma once
// Who a request comes from: what a key's owner may do and how much of the server he may have. All limits are
// off unless they are set.
//
// Threading: a plain value.

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/priority.h"

namespace reprise::protocol {

struct Tenant {
  std::string name{};         // empty: the server has no keys
  std::string cache_owner{};  // tenants with the same one share what is cached

  bool is_operator = false;             // may use the routes for operators
  std::uint32_t requests = 0;           // being generated at once, each choice of each prompt; 0: no limit
  std::uint64_t tokens_per_minute = 0;  // computed of prompts, and generated; 0: no limit
  double state_share = 0;  // of the memory for states, held by its sequences, up to 1; 0: no limit
  /// Of its requests, and the highest that one may ask for. Without keys everybody may ask for any.
  std::optional<Priority> priority{};
};

}  // namespace reprise::protocol
