#pragma once
// RequestMeter: how far a request is, for whoever looks at the engine (protocol::RunningRequest).
//
// Threading: written by the request's actor, read by anybody. Each figure is by itself: relaxed everywhere, nothing is
// published with them.

#include <atomic>
#include <cstdint>
#include <string>

namespace reprise::actors {

struct RequestMeter {
  RequestMeter(std::uint64_t its_number, std::string its_model)
      : number(its_number), model(std::move(its_model)) {}

  const std::uint64_t number;
  const std::string model;
  std::atomic<std::uint32_t> prompt_tokens{0};
  std::atomic<std::uint32_t> reused_tokens{0};
  std::atomic<std::uint32_t> reply_tokens{0};
  std::atomic<std::uint32_t> most_reply_tokens{0};
  std::atomic<bool> ended{false};  // the client has all that it gets
};

}  // namespace reprise::actors
