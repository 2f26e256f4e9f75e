#pragma once
// What llama-server calls timings: tokens of prompt and reply, and how fast they were.
//
// Threading: plain values and pure functions.

#include <chrono>
#include <cstdint>
#include <string>

#include "protocol/service.h"

namespace reprise::protocol {

struct Timings {
  std::uint32_t cache_n = 0;   // tokens of the prompt that were restored
  std::uint32_t prompt_n = 0;  // and those that were computed
  double prompt_ms = 0;
  std::uint32_t predicted_n = 0;
  double predicted_ms = 0;
};

Timings timings_of(const Usage& usage);
/// {"cache_n":…,"prompt_n":…,"prompt_ms":…,…}
void append_timings(std::string& out, const Timings& timings);

/// The same while a reply goes on, of one of its choices or of all.
class LiveTimings {
 public:
  void started(const Started& event);
  void add(std::size_t tokens) { now_.predicted_n += static_cast<std::uint32_t>(tokens); }
  Timings now() const;

 private:
  Timings now_{};
  std::chrono::steady_clock::time_point admitted_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point started_{};
};

}  // namespace reprise::protocol
