#pragma once
// What happens when an actor fails, and how others learn that an actor has ended.
//
// A turn that throws fails the actor. The reaction is chosen when the actor is spawned:
//   stop       (default) The actor stops with StopReason::kFailed.
//   restart    After its children have stopped, the actor object is destroyed and re-created from the same
//              arguments. The cell remains, so references and waiting messages stay valid. The failed
//              message is not repeated; suspended handlers are dropped, and their askers get kNoReply.
//              After more than `restarts` failures within `window`, the actor ends as `then` says.
//   escalate   The actor stops, and its parent fails with its error, to which the parent's own rule
//              applies. An actor without parent calls FailureHooks::on_escalation.
// When an actor stops or restarts, its children stop first.
//
// watch(*this, ref) lets an actor that accepts Down learn of another's end: exactly one Down per watch, after
// all messages that the watched actor sent to the watcher, or immediately if it has already stopped.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/detail/ticks.h"

namespace reprise::runtime {

using ActorId = std::uint64_t;

enum class StopReason : std::uint8_t {
  kStopped,         // by request, or by itself
  kFailed,          // a turn threw
  kOutOfRestarts,   // failed more often than OnFailure allows
  kSystemStopping,  // the whole system stops
};

const char* to_string(StopReason reason);

struct OnFailure {
  enum class Do : std::uint8_t { kStop, kRestart, kEscalate };

  Do action = Do::kStop;
  Do then = Do::kStop;  // after the last restart: kStop or kEscalate
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

/// Sent to a watcher when the watched actor has stopped.
struct Down {
  ActorId who;
  StopReason reason;
  std::string why;  // the exception's text; empty if there was none
};

}  // namespace reprise::runtime
