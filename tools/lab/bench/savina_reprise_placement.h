#pragma once
// What the benchmarks on the Reprise runtime share.
//
// Placement, which savina.h leaves to each runtime: actors that mostly wait for each other are kept near one
// another, where a message needs no atomic operation; actors with work of their own are spread over the pool.
// That is what runtime/actor.h tells users to do. `SAVINA_SPREAD=1` spreads all of them, to show the price of
// crossing threads.

#include "runtime/system.h"
#include "tools/lab/bench/savina.h"

namespace reprise::bench {

namespace rt = reprise::runtime;
using rt::Actor;
using rt::MailboxSpec;
using rt::Messages;
using rt::Placement;
using rt::Ref;
using rt::RefOf;
using rt::Task;

inline constexpr MailboxSpec kUnbounded{.capacity = MailboxSpec::kUnbounded};

/// Where actors go that talk more than they work.
inline rt::SpawnOptions talkers() {
  static const bool spread = std::getenv("SAVINA_SPREAD") != nullptr;
  return {.placement = spread ? Placement::pool() : Placement::near()};
}

}  // namespace reprise::bench
