#pragma once
// A message whose sender waits until the mailbox has room (Overload::kSuspend).
//
// The message travels at once, in its place among the sender's other messages, and waits at the receiver; its
// admission is answered to the sender like a question. So a suspended sender holds no lock, and needs no
// second try. A question waits in the same way; its asker waits for the answer anyhow and is not told of the
// admission.
//
// Threading: as any node.

#include <memory>

#include "base/check.h"
#include "runtime/pool.h"
#include "runtime/reply.h"

namespace reprise::runtime {

struct ParkedSend : Node, Pooled {
  using Wanted = bool (*)(const ParkedSend&);

  ParkedSend(Node* waiting_message, ReplyTo<void> told_when_admitted)
      : Node(&kOps),
        message(waiting_message),
        admitted(std::move(told_when_admitted)),
        wanted([](const ParkedSend& parked) { return parked.admitted.wanted(); }) {}
  /// A question: `asked` tells whether its answer is still wanted.
  ParkedSend(Node* question, Wanted asked) : Node(&kOps), message(question), wanted(asked) {}

  /// False if the sender has given up: the message is not to be delivered.
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
