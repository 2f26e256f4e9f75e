#pragma once
// What the recorder keeps: one event of a trace, as the file writer and the tests read it.
//
// Threading: plain values.

#include <cstdint>
#include <string>

namespace reprise::traces {

struct Event {
  enum class Kind : std::uint8_t {
    kZone,     // [at_ns, end_ns] on a track
    kMessage,  // a point in time with text
    kSent,     // a message of the type `name` to the actor `text`; its turn is the zone with the same `flow`
    kPlot,     // `number` from now on
    kFrame,    // one period of something that repeats has ended
    kRequestBegin,
    kRequestMark,
    kRequestEnd,  // of the request `id`; `name` says what has happened to it, `text` its facts
  };

  Kind kind = Kind::kMessage;
  const char* name = "";        // of the zone, plot, frame or mark; lives for ever
  const char* track = nullptr;  // of an actor's fiber, lives for ever; null: the thread's own
  std::uint32_t thread = 0;     // number of the thread, from 1
  std::int64_t at_ns = 0;       // of the steady clock
  std::int64_t end_ns = 0;      // zones
  std::int64_t wait_ns = -1;    // turns: how long their message was in the mailbox; negative: unknown
  std::uint64_t flow = 0;       // of a message and its turn; 0: none
  double number = 0;            // plots
  std::string id{};             // of a request
  std::string text{};
};

}  // namespace reprise::traces
