#pragma once
// A message whose sender waits for space in the receiver's mailbox (Overload::kSuspend).
//
// The message is sent at once, in order with the sender's other messages, and waits at the receiver. Its
// admission is reported to the sender like the answer to a question, so a suspended sender holds no lock and
// never retries. A question can be parked too; its asker already waits for the answer, so its admission is
// not reported.

#include <memory>

#include "base/check.h"
#include "runtime/detail/pool.h"
#include "runtime/reply.h"

namespace reprise::runtime {

struct ParkedSend : Node, Pooled {
  using Wanted = bool (*)(const ParkedSend&);

  ParkedSend(Node* waiting_message, ReplyTo<void> told_when_admitted)
      : Node(&kOps),
        message(waiting_message),
        admitted(std::move(told_when_admitted)),
        wanted([](const ParkedSend& parked) { return parked.admitted.wanted(); }) {}
  /// For a question; `asked` returns whether its answer is still wanted.
  ParkedSend(Node* question, Wanted asked) : Node(&kOps), message(question), wanted(asked) {}

  /// Returns false if the sender has given up; the message must then not be delivered.
  bool still_wanted() const { return wanted(*this); }

  static void run_node(Node*, Cell&) { REPRISE_CHECK(false, "a parked message was delivered"); }
  static void bounce_node(Node* node, ErrorCode why) {
    const std::unique_ptr<ParkedSend> parked(static_cast<ParkedSend*>(node));
    parked->message->ops->bounce(parked->message, why);
    parked->admitted.answer(why);
  }
  static constexpr NodeOps kOps{NodeKind::kParked, "parked", nullptr, run_node, bounce_node};

  Node* message;
  ReplyTo<void> admitted;
  Wanted wanted;
};

}  // namespace reprise::runtime
