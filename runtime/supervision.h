#pragma once
// What happens when an actor fails, and how others learn of an actor's end.
//
// A turn that throws fails the actor. What follows is chosen where the actor is spawned:
//   stop       (default) the actor stops with StopReason::kFailed
//   restart    the actor object is destroyed and made anew from the same arguments, after its children have
//   stopped. The
//              cell stays: references and waiting messages remain valid; the message that failed is not
//              repeated, and suspended handlers are dropped (their askers are told kNoReply). More than
//              `restarts` failures within `window`, and the actor ends as if by `then`.
//   escalate   the actor stops and its parent fails with its error, to be treated by the parent's own rule;
//   an actor
//              without parent escalates to SystemOptions::on_escalation.
// When an actor stops or restarts, its children stop first.
//
// watch(*this, ref) lets any actor that takes Down learn of another's end: exactly one Down for each watch,
// after all messages that the watched actor sent to the watcher; at once if it has stopped already.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/ticks.h"

namespace reprise::runtime {

using ActorId = std::uint64_t;

enum class StopReason : std::uint8_t {
  kStopped,         // asked to, or by itself
  kFailed,          // a turn threw
  kOutOfRestarts,   // failed more often than its limit allows
  kSystemStopping,  // the whole system stops
};

const char* to_string(StopReason reason);

struct OnFailure {
  enum class Do : std::uint8_t { kStop, kRestart, kEscalate };

  Do action = Do::kStop;
  Do then = Do::kStop;  // when out of restarts: kStop or kEscalate
  std::uint32_t restarts = 0;
  Duration window{};
  Duration delay{};  // before each restart

  static constexpr OnFailure stop() { return {}; }
  static constexpr OnFailure escalate() { return {.action = Do::kEscalate}; }
  static constexpr OnFailure restart(std::uint32_t most, Duration within, Do then = Do::kStop,
                                     Duration delay = {}) {
    return {.action = Do::kRestart, .then = then, .restarts = most, .window = within, .delay = delay};
  }
};

/// Sent to a watcher.
struct Down {
  ActorId who;
  StopReason reason;
  std::string why;  // the text of the exception where there was one
};

}  // namespace reprise::runtime
