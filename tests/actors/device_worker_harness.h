#pragma once
// A device worker with a fake model and a fake registry, for tests of the contracts in protocol/jobs/.

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "actors/device/device_worker.h"
#include "base/token.h"
#include "runtime/system.h"
#include "tests/actors/fake_model.h"
#include "tests/idle.h"
#include "tools/reliability/faults.h"

namespace reprise::actors {
using namespace std::chrono_literals;
using protocol::ErrorKind;
using protocol::JobResult;
using Kind = protocol::SnapshotKv::Kind;

/// Messages that the worker's peers received.
struct Notes {
  std::mutex mutex;
  std::deque<protocol::CheckpointTaken> checkpoints;  // guarded by mutex
  std::vector<protocol::SnapshotId> to_give;          // on the next Reclaim; guarded by mutex
  std::atomic<std::uint32_t> reclaims{0};
  std::atomic<std::uint32_t> failures{0};
};

/// On a reclaim, drops the snapshots in Notes::to_give.
class FakeRegistry : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::Reclaim, protocol::CheckpointTaken>;
  static constexpr std::uint32_t kConcurrentHandlers = 16;
  FakeRegistry(std::shared_ptr<Notes> notes, runtime::RefOf<DeviceWorker> worker)
      : notes_(std::move(notes)), worker_(std::move(worker)) {}

  runtime::Task<protocol::Reclaimed> on(protocol::Reclaim reclaim) {
    if (reclaim.ahead) co_return protocol::Reclaimed{};  // nothing ahead of need
    ++notes_->reclaims;
    std::vector<protocol::SnapshotId> going;
    {
      const std::lock_guard lock(notes_->mutex);
      going.swap(notes_->to_give);
    }
    protocol::Reclaimed reclaimed;
    for (const protocol::SnapshotId id : going) {
      auto asked = worker_.ask(protocol::DropKvSnapshot{.snapshot = id}, 10s);
      const runtime::Result<protocol::Dropped> dropped = co_await asked;
      if (dropped.ok()) reclaimed.freed_bytes += dropped->freed_bytes;
      ++reclaimed.entries;
    }
    co_return reclaimed;
  }
  void on(protocol::CheckpointTaken taken) {
    const std::lock_guard lock(notes_->mutex);
    notes_->checkpoints.push_back(std::move(taken));
  }

 private:
  const std::shared_ptr<Notes> notes_;
  const runtime::RefOf<DeviceWorker> worker_;
};

class ArchFailures : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<protocol::ArchFailed>;
  explicit ArchFailures(std::shared_ptr<Notes> notes) : notes_(std::move(notes)) {}
  void on(protocol::ArchFailed) { ++notes_->failures; }

 private:
  const std::shared_ptr<Notes> notes_;
};

inline constexpr std::uint64_t kSlot = FakeModel::kSlotBytes;
inline constexpr std::uint64_t kPage = FakeModel::kPageBytes;

class DeviceWorkerContract : public testing::Test {
 protected:
  template <class Worker = DeviceWorker>
  void start(std::uint64_t state_bytes = 1 << 20, std::chrono::milliseconds patience = 300ms) {
    WorkerOptions options;
    options.device_options.threads = 1;
    options.state_bytes = state_bytes;
    options.reply_tokens_reserved = 0;
    options.patience = patience;
    options.faults = faults_;
    options.make_model = fake_models(control_);
    options.supervisor = system_.spawn<ArchFailures>({}, notes_);
    worker_ = system_.spawn<Worker>({.placement = runtime::Placement::own_thread()}, options);
    registry_ = system_.spawn<FakeRegistry>({}, notes_, worker_);
    arch_ = load();
  }
  protocol::ArchId load() {
    const auto loaded = ask(protocol::LoadArch{.path = "none"});
    EXPECT_TRUE(loaded.ok());
    worker_.tell(protocol::AttachRegistry{.arch = loaded->arch, .registry = registry_});
    return loaded->arch;
  }

  /// Returns the worker's answer; fails the test if there is none.
  template <class Job>
  typename Job::Reply ask(Job job) {
    auto answer = worker_.ask_blocking(std::move(job), 30s);
    EXPECT_TRUE(answer.ok()) << answer.error().describe();
    return std::move(*answer);
  }
  template <class Job>
  std::future<typename Job::Reply> ask_meanwhile(Job job) {
    return std::async(std::launch::async,
                      [this, job = std::move(job)]() mutable { return ask(std::move(job)); });
  }

  /// An ask that was posted; its answer is fetched later.
  template <class Job>
  class Asked {
   public:
    explicit Asked(runtime::ref_detail::BlockingReply<typename Job::Reply>* slot) : slot_(slot) {}
    /// Once.
    typename Job::Reply get() const {
      auto answer = slot_->wait_until(runtime::deadline_after(30s));
      EXPECT_TRUE(answer.ok()) << answer.error().describe();
      return std::move(*answer);
    }

   private:
    runtime::ref_detail::BlockingReply<typename Job::Reply>* const slot_;  // owned by its two sides
  };
  template <class Job>
  Asked<Job> post(Job job) {
    auto* slot = new runtime::ref_detail::BlockingReply<typename Job::Reply>();
    runtime::ref_detail::ask<Job>(*worker_.cell(), std::move(job),
                                  runtime::ReplyTo<typename Job::Reply>(slot), runtime::deadline_after(30s));
    return Asked<Job>(slot);
  }

  protocol::OpenSequence open_job(std::uint32_t prompt_tokens) {
    return {.arch = arch_, .ticket = ++ticket_, .prompt_tokens = prompt_tokens};
  }
  struct Open {
    protocol::SequenceId id;
    std::uint64_t ticket;
  };
  Open open(std::uint32_t prompt_tokens = 200) {
    const auto opened = ask(open_job(prompt_tokens));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return {opened->sequence, ticket_};
  }
  void close(const Open& sequence) { worker_.tell(protocol::CloseSequence{arch_, sequence.ticket}); }

  static TokenList prompt(std::uint32_t count, TokenId salt = 0) {
    TokenList tokens(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<TokenId>((i * 7 + static_cast<std::uint32_t>(salt)) % FakeModel::kVocab);
    }
    return tokens;
  }
  static protocol::Prefill prefill_of(const Open& sequence, std::uint32_t count,
                                      const std::vector<std::uint32_t>& positions = {}) {
    auto plan = std::make_shared<protocol::CheckpointPlan>();
    plan->flight = 77;
    for (const std::uint32_t at : positions) plan->checkpoints.push_back({.at = at});
    return {.sequence = sequence.id, .tokens = share_tokens(prompt(count)), .end = count, .plan = plan};
  }
  void prefill(const Open& sequence, std::uint32_t count) {
    const auto prefilled = ask(prefill_of(sequence, count));
    EXPECT_TRUE(prefilled.ok()) << prefilled.error().message;
  }
  protocol::SnapshotId snapshot(const Open& sequence, Kind kind = Kind::kCanonical) {
    const auto taken = ask(protocol::SnapshotKv{.sequence = sequence.id, .kind = kind});
    EXPECT_TRUE(taken.ok()) << taken.error().message;
    return taken.ok() ? taken->snapshot : protocol::SnapshotId{};
  }
  /// Returns a snapshot of that many tokens, adopted by the registry.
  protocol::SnapshotId adopted(std::uint32_t tokens) {
    const Open sequence = open(tokens);
    prefill(sequence, tokens);
    const protocol::SnapshotId id = snapshot(sequence);
    EXPECT_TRUE(ask(protocol::AdoptKvSnapshot{.snapshot = id, .budget_bytes = 1 << 20})->done);
    close(sequence);
    return id;
  }
  static protocol::RestoreKv restore_of(const Open& sequence, protocol::SnapshotId snapshot,
                                        std::uint32_t at) {
    return {.sequence = sequence.id, .snapshot = snapshot, .at = at, .token_hash = token_hash(prompt(at))};
  }
  TokenList decode(const Open& sequence, std::uint32_t count, protocol::SharedPlan call_plan = {},
                   TokenId call_opener = -1) {
    auto [writer, reader] = runtime::make_stream<protocol::DecodeEvent>(8);
    protocol::Decode job{.sequence = sequence.id,
                         .max_tokens = count,
                         .call_plan = std::move(call_plan),
                         .call_opener = call_opener,
                         .out = std::move(writer)};
    job.sampling.temperature = 0;
    worker_.tell(std::move(job));
    TokenList tokens;
    for (;;) {
      const auto event = reader.next_blocking(runtime::deadline_after(20s));
      if (!event.ok() || event->end == protocol::DecodeEnd::kFault) return tokens;
      tokens.push_back(event->token->token);
    }
  }
  protocol::Memory memory() { return ask(protocol::QueryMemory{}); }
  std::deque<protocol::CheckpointTaken> reported() {
    const std::lock_guard lock(notes_->mutex);
    return notes_->checkpoints;
  }
  void give(protocol::SnapshotId id) {
    const std::lock_guard lock(notes_->mutex);
    notes_->to_give.push_back(id);
  }

  const std::shared_ptr<FakeControl> control_ = std::make_shared<FakeControl>();
  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  const std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  runtime::System system_{{.workers = 2}};
  runtime::RefOf<DeviceWorker> worker_;
  runtime::RefOf<FakeRegistry> registry_;
  protocol::ArchId arch_;
  std::uint64_t ticket_ = 0;
};

}  // namespace reprise::actors
