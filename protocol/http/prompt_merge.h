#pragma once
// The replies to several prompts of one completion as one: each prompt is a request of its own to the engine,
// and their events become a single stream, as they come.
//
// Choice k of prompt p is choice p * n + k. Admitted comes once, with the first of them; Started for each
// prompt, with its index; Done once, behind all, with the sum of the accounts. The first Failed is the last
// event. Letting the merged stream go lets all replies go, and with them the requests.
//
// Bounds: one event of each prompt waits here, so a slow reader pauses all of its prompts.
//
// Threading: an actor where the reader lives.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "protocol/service.h"
#include "runtime/actor.h"
#include "runtime/cancel.h"
#include "runtime/event.h"

namespace reprise::protocol {

class PromptMerge : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<>;
  static constexpr const char* kName = "prompt merge";

  /// `n`: choices of each prompt.
  PromptMerge(std::vector<runtime::StreamReader<Event>> replies, std::uint32_t n,
              runtime::StreamWriter<Event> merged);

  void on_start();

 private:
  struct Arrival {
    std::uint32_t prompt;
    runtime::Result<Event> event;
  };

  runtime::Task<void> read(std::uint32_t prompt);
  runtime::Task<void> write();
  /// The event as the merged stream has it; none where that has had it, or has to wait for it.
  std::optional<Event> translate(std::uint32_t prompt, Event event);

  std::vector<runtime::StreamReader<Event>> replies_;
  const std::uint32_t n_;
  runtime::StreamWriter<Event> merged_;
  std::deque<Arrival> arrived_;
  std::optional<runtime::CancelSource> arrival_wanted_;  // ends the wait for the reader's end
  std::vector<runtime::Event> taken_;                    // by prompt: its event was taken from arrived_
  std::vector<std::optional<Usage>> accounts_;           // by prompt
  bool admitted_ = false;
};

/// The accounts of several prompts as one: tokens are added; times are those of the slowest, but the first
/// token's; a miss is told of the prompt that had most to compute.
Usage sum_of(const std::vector<std::optional<Usage>>& accounts);

}  // namespace reprise::protocol
