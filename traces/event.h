#pragma once
// One event of a trace, as the recorder stores it.

#include <cstdint>
#include <string>

namespace reprise::traces {

struct Event {
  enum class Kind : std::uint8_t {
    kZone,     // [at_ns, end_ns] on a track
    kMessage,  // a point in time with text
    kSent,     // a message of type `name` to the actor `text`; its turn is the zone with the same `flow`
    kPlot,     // `number` is the plot's value from this time on
    kFrame,    // end of one period of a repeating activity
    kRequestBegin,
    kRequestMark,
    kRequestEnd,  // `name` is the outcome of the request `id`, `text` its facts
  };

  Kind kind = Kind::kMessage;
  const char* name = "";        // zone, plot, frame or mark; never freed
  const char* track = nullptr;  // the actor's fiber, never freed; null: the thread's own line
  std::uint32_t thread = 0;     // number of the thread, from 1
  std::int64_t at_ns = 0;       // time of the steady clock
  std::int64_t end_ns = 0;      // zones: end time
  std::int64_t wait_ns = -1;    // turns: time the message was in the mailbox; negative: unknown
  std::uint64_t flow = 0;       // links a message and its turn; 0: none
  double number = 0;            // plots: value
  std::string id{};             // requests: id
  std::string text{};
};

}  // namespace reprise::traces
