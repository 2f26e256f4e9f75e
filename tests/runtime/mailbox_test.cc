// Mailboxes: capacity under each overload policy, and undeliverable messages.

#include "runtime/detail/mailbox.h"

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

/// Blocks its executor until the gate opens, so that messages accumulate.
struct Hold {
  std::shared_ptr<std::atomic<bool>> gate;
};
struct Item {
  using Reply = int;
  int number;
};
struct Seen {
  using Reply = std::vector<int>;
};
/// Recorded as a negative number.
struct GiveBack {
  static constexpr bool kReleases = true;
  using Reply = int;
  int number;
};

template <Overload kPolicy>
class Box : public Actor {
 public:
  using Accepts = Messages<Hold, Item, GiveBack, Seen>;
  static constexpr MailboxSpec kMailbox{.capacity = 4, .overload = kPolicy};
  void on(Hold hold) {
    while (!*hold.gate) std::this_thread::sleep_for(100us);
  }
  int on(Item item) {
    seen_.push_back(item.number);
    return item.number;
  }
  int on(GiveBack release) {
    seen_.push_back(-release.number);
    return -release.number;
  }
  std::vector<int> on(Seen) { return seen_; }

 private:
  std::vector<int> seen_;
};

template <Overload kPolicy>
struct HeldBox {
  System system{{.workers = 2}};
  std::shared_ptr<std::atomic<bool>> gate = std::make_shared<std::atomic<bool>>(false);
  RefOf<Box<kPolicy>> box = system.spawn<Box<kPolicy>>({.placement = Placement::own_thread()});

  HeldBox() {
    box.tell(Hold{gate});
    EXPECT_TRUE(eventually([&] { return info().turns == 1 || info().running_ns > 0; }));
    EXPECT_TRUE(eventually([&] { return info().mailbox_depth == 0; }));
  }
  ActorInfo info() {
    for (ActorInfo& info : system.actors()) {
      if (info.id == box.id()) return info;
    }
    return {};
  }
  std::vector<int> seen() {
    *gate = true;
    EXPECT_TRUE(eventually([&] { return info().mailbox_depth == 0; }));
    return *box.ask_blocking(Seen{}, 5s);
  }
};

TEST(Mailbox, RejectTellsTheSender) {
  HeldBox<Overload::kReject> held;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(held.box.tell(Item{i}), SendStatus::kSent);
  EXPECT_EQ(held.box.tell(Item{4}), SendStatus::kMailboxFull);
  EXPECT_EQ(held.box.ask_blocking(Item{5}, 5s).error().code, ErrorCode::kMailboxFull);
  EXPECT_EQ(held.info().mailbox_depth, 4U);
  EXPECT_EQ(held.seen(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(held.box.tell(Item{6}), SendStatus::kSent);
}

struct Flood {
  using Reply = int;
  Ref<Item> to;
  std::atomic<bool>* flooded;
};
class Flooder : public Actor {
 public:
  using Accepts = Messages<Flood>;
  Task<int> on(Flood flood) {
    auto asked = flood.to.ask(Item{100}, 10s);
    int refused = 0;
    // The executor is blocked, so nothing is dropped yet; the second bound holds.
    for (int i = 0; i < 8; ++i) refused += flood.to.tell(Item{i}) == SendStatus::kMailboxFull ? 1 : 0;
    *flood.flooded = true;
    const Result<int> answer = co_await asked;
    co_return answer.ok() ? -1 : static_cast<int>(answer.error().code) * 10 + refused;
  }
};

TEST(Mailbox, DropOldestKeepsTheNewestAndTellsWhoWaited) {
  HeldBox<Overload::kDropOldest> held;
  auto flooder = held.system.spawn<Flooder>();
  std::atomic<bool> flooded{false};
  Result<int> outcome(0);
  std::thread waiting([&] { outcome = flooder.ask_blocking(Flood{held.box, &flooded}, 10s); });
  EXPECT_TRUE(eventually([&] { return flooded.load(); }));
  EXPECT_EQ(held.seen(), (std::vector<int>{3, 4, 5, 6}));
  waiting.join();
  EXPECT_EQ(*outcome, static_cast<int>(ErrorCode::kDropped) * 10 + 1);
}

struct SendAll {
  using Reply = int;
  Ref<Item> to;
  int count;
};
class Sender : public Actor {
 public:
  using Accepts = Messages<SendAll>;
  static constexpr std::uint32_t kConcurrentHandlers = 4;
  Task<int> on(SendAll all) {
    int sent = 0;
    for (int i = 0; i < all.count; ++i) {
      auto sending = all.to.send(Item{i});
      const Result<void> result = co_await sending;
      if (!result.ok()) co_return -static_cast<int>(result.error().code);
      ++sent;
    }
    co_return sent;
  }
};

TEST(Mailbox, SuspendMakesTheSenderWaitAndLosesNothing) {
  HeldBox<Overload::kSuspend> held;
  auto sender = held.system.spawn<Sender>();
  Result<int> sent(0);
  std::thread waiting([&] { sent = sender.ask_blocking(SendAll{held.box, 200}, 20s); });
  EXPECT_TRUE(eventually([&] { return held.info().mailbox_depth == 5; }));  // four and the parked one
  EXPECT_EQ(held.box.tell(Item{1000}), SendStatus::kMailboxFull) << "tell cannot wait";
  const std::vector<int> seen = (*held.gate = true, waiting.join(), held.seen());
  EXPECT_EQ(*sent, 200);
  ASSERT_EQ(seen.size(), 200U);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(Mailbox, AQuestionWaitsForRoomToo) {
  HeldBox<Overload::kSuspend> held;
  for (int i = 0; i < 4; ++i) held.box.tell(Item{i});
  Result<int> answer(0);
  std::thread waiting([&] { answer = held.box.ask_blocking(Item{9}, 5s); });
  EXPECT_TRUE(eventually([&] { return held.info().mailbox_depth == 5; }));
  *held.gate = true;
  waiting.join();
  EXPECT_EQ(*answer, 9);
}

struct Limited {
  using Reply = int;
  Ref<Item> to;
};
class LimitedSender : public Actor {
 public:
  using Accepts = Messages<Limited>;
  Task<int> on(Limited limited) {
    auto sending = limited.to.send(Item{77}, Clock::now() + 10ms);
    const Result<void> result = co_await sending;
    auto past = limited.to.send(Item{78}, Clock::now() - 10ms);
    const Result<void> at_once = co_await past;
    co_return !result.ok() && result.error().code == ErrorCode::kDeadline && !at_once.ok() &&
            at_once.error().code == ErrorCode::kDeadline
        ? 1
        : 0;
  }
};

TEST(Mailbox, ASenderThatGivesUpIsNotDelivered) {
  HeldBox<Overload::kSuspend> held;
  for (int i = 0; i < 4; ++i) held.box.tell(Item{i});
  auto sender = held.system.spawn<LimitedSender>();
  EXPECT_EQ(*sender.ask_blocking(Limited{held.box}, 5s), 1);
  EXPECT_EQ(held.seen(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(held.info().mailbox_depth, 0U);
}

struct GiveUpOften {
  using Reply = int;
  Ref<Item> to;
};
class FickleSender : public Actor {
 public:
  using Accepts = Messages<GiveUpOften>;
  Task<int> on(GiveUpOften often) {
    CancelSource source;
    int canceled = 0;
    for (int i = 0; i < 500; ++i) {
      auto sending = often.to.send(Item{i}, Clock::now() + 100us, source.token());
      const Result<void> sent = co_await sending;
      auto asking = often.to.ask(Item{i}, 100us);
      const Result<int> answer = co_await asking;
      canceled += !sent.ok() && !answer.ok() ? 1 : 0;
    }
    co_return canceled;
  }
};

// A serial actor that suspends in a handler: its executor runs, but its mailbox does not drain.
class Waiting : public Actor {
 public:
  using Accepts = Messages<Item>;
  static constexpr MailboxSpec kMailbox{.capacity = 1, .overload = Overload::kSuspend};
  Task<int> on(Item item) {
    auto pause = sleep_for(1h);
    const Result<void> rested = co_await pause;
    co_return rested.ok() ? item.number : 0;
  }
};

TEST(Mailbox, MessagesOfSendersWhoGaveUpAreWeededOut) {
  System system({.workers = 2});
  auto waiting = system.spawn<Waiting>({.name = "waiting"});
  EXPECT_EQ(waiting.tell(Item{1}), SendStatus::kSent);
  EXPECT_TRUE(eventually([&] { return system.actors().front().suspended_handlers == 1; }));
  EXPECT_EQ(waiting.tell(Item{2}), SendStatus::kSent);
  auto fickle = system.spawn<FickleSender>();
  EXPECT_EQ(*fickle.ask_blocking(GiveUpOften{waiting}, 20s), 500);
  for (const ActorInfo& info : system.actors()) {
    if (info.name == "waiting") {
      EXPECT_LT(info.mailbox_depth, 100U);
    }
  }
  system.stop(0s);
}

TEST(Mailbox, AFullMailboxAdmitsReleases) {
  HeldBox<Overload::kReject> held;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(held.box.tell(Item{i}), SendStatus::kSent);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(held.box.tell(GiveBack{i}), SendStatus::kSent);
  EXPECT_EQ(held.info().mailbox_depth, 7U) << "they are counted";
  EXPECT_EQ(held.box.tell(Item{9}), SendStatus::kMailboxFull);
  EXPECT_EQ(held.seen(), (std::vector<int>{0, 1, 2, 3, -1, -2, -3}));
  EXPECT_EQ(held.info().mailbox_depth, 0U);
  held.box.stop();
  EXPECT_TRUE(eventually([&] { return held.box.stopped(); }));
  EXPECT_EQ(held.box.tell(GiveBack{4}), SendStatus::kStopped);
}

TEST(Mailbox, ReleasesAreNotDropped) {
  HeldBox<Overload::kDropOldest> held;
  held.box.tell(GiveBack{1});
  held.box.tell(GiveBack{2});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(held.box.tell(Item{i}), SendStatus::kSent);
  EXPECT_EQ(held.seen(), (std::vector<int>{-1, -2, 4, 5}));
}

TEST(Mailbox, ReleasesAloneMayExceedTheCapacity) {
  HeldBox<Overload::kDropOldest> held;
  for (int i = 1; i < 7; ++i) EXPECT_EQ(held.box.tell(GiveBack{i}), SendStatus::kSent);
  EXPECT_EQ(held.box.tell(Item{1}), SendStatus::kSent) << "admitted, and dropped on arrival";
  EXPECT_EQ(held.seen(), (std::vector<int>{-1, -2, -3, -4, -5, -6}));
}

struct AskThenRelease {
  using Reply = int;
  Ref<Item, GiveBack> to;
  std::atomic<bool>* sent;
};
class Releaser : public Actor {
 public:
  using Accepts = Messages<AskThenRelease>;
  Task<int> on(AskThenRelease job) {
    auto asked = job.to.ask(Item{50}, 10s);
    const SendStatus status = job.to.tell(GiveBack{50});
    *job.sent = true;
    const Result<int> answer = co_await asked;
    if (status != SendStatus::kSent) co_return 0;
    co_return answer.ok() ? *answer : -static_cast<int>(answer.error().code);
  }
};

TEST(Mailbox, AReleaseDoesNotOvertakeParkedMessages) {
  HeldBox<Overload::kSuspend> held;
  for (int i = 0; i < 4; ++i) held.box.tell(Item{i});
  auto releaser = held.system.spawn<Releaser>();
  std::atomic<bool> sent{false};
  Result<int> answer(0);
  std::thread waiting([&] { answer = releaser.ask_blocking(AskThenRelease{held.box, &sent}, 20s); });
  EXPECT_TRUE(eventually([&] { return sent.load(); }));
  *held.gate = true;
  waiting.join();
  EXPECT_EQ(*answer, 50);
  EXPECT_EQ(held.seen(), (std::vector<int>{0, 1, 2, 3, 50, -50}));
  EXPECT_EQ(held.info().mailbox_depth, 0U);
}

TEST(Mailbox, AStopBouncesReleasesBehindParkedOnes) {
  HeldBox<Overload::kSuspend> held;
  for (int i = 0; i < 4; ++i) held.box.tell(Item{i});
  auto releaser = held.system.spawn<Releaser>();
  std::atomic<bool> sent{false};
  Result<int> answer(0);
  std::thread waiting([&] { answer = releaser.ask_blocking(AskThenRelease{held.box, &sent}, 20s); });
  EXPECT_TRUE(eventually([&] { return sent.load(); }));
  held.box.stop();
  *held.gate = true;
  waiting.join();
  EXPECT_EQ(*answer, -static_cast<int>(ErrorCode::kStopped));
}

TEST(Mailbox, AStopWakesSuspendedSenders) {
  HeldBox<Overload::kSuspend> held;
  for (int i = 0; i < 4; ++i) held.box.tell(Item{i});
  auto sender = held.system.spawn<Sender>();
  Result<int> sent(0);
  std::thread waiting([&] { sent = sender.ask_blocking(SendAll{held.box, 1}, 20s); });
  EXPECT_TRUE(eventually([&] { return held.info().mailbox_depth == 5; }));
  held.box.stop();
  *held.gate = true;
  waiting.join();
  EXPECT_EQ(*sent, -static_cast<int>(ErrorCode::kStopped));
}

// -- the linked list

struct TestNode : Node {
  explicit TestNode(NodeKind kind) : Node(kind == NodeKind::kMessage ? &kMessage : &kOther) {}
  static void run_node(Node*, Cell&) {}
  static void bounce_node(Node*, ErrorCode) {}
  static constexpr NodeOps kMessage{NodeKind::kMessage, "", nullptr, run_node, bounce_node};
  static constexpr NodeOps kOther{NodeKind::kContinuation, "", nullptr, run_node, bounce_node};
};

TEST(NodeList, RemovesTheFirstMessageFromAnywhere) {
  NodeList list;
  TestNode a(NodeKind::kContinuation), b(NodeKind::kMessage), c(NodeKind::kContinuation),
      d(NodeKind::kMessage);
  for (TestNode* node : {&a, &b, &c, &d}) list.push(node);
  EXPECT_EQ(list.remove_droppable(), &b);
  EXPECT_EQ(list.remove_droppable(), &d);
  EXPECT_EQ(list.remove_droppable(), nullptr);
  list.push(&b);
  EXPECT_EQ(list.pop(), &a);
  EXPECT_EQ(list.pop(), &c);
  EXPECT_EQ(list.pop(), &b);
  EXPECT_EQ(list.pop(), nullptr);
}

}  // namespace
}  // namespace reprise::runtime
