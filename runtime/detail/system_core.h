#pragma once
// State shared by a system's executors. Threading: any thread.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace reprise::runtime {

/// Called for every turn that throws, and every failure that no parent handles, on the failing actor's executor;
/// must be brief and not throw.
struct FailureHooks {
  std::function<void(ActorId who, const char* name, const std::string& why)> on_failure;
  std::function<void(ActorId who, const char* name, const std::string& why)> on_escalation;
};

class SystemCore : public std::enable_shared_from_this<SystemCore> {
 public:
  explicit SystemCore(FailureHooks hooks) : hooks_(std::move(hooks)) {}

  ActorId next_id() { return ids_.fetch_add(1, std::memory_order_relaxed); }

  /// Spawning fails from then on.
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  void begin_stopping() { stopping_.store(true, std::memory_order_relaxed); }

  /// Also joins own threads that have ended.
  void add_executor(ExecutorPtr executor);
  std::vector<ExecutorPtr> executors() const;

  /// choose_worker() takes the less busy of two workers in rotation. Without `own_threads`, actors that ask for a thread
  /// of their own are placed by it, too.
  void set_pool(std::vector<ExecutorPtr> pool, bool own_threads = true) {
    pool_ = std::move(pool);
    own_threads_ = own_threads;
  }
  bool own_threads() const { return own_threads_; }
  Executor& choose_worker();

  void note_dead_letter() { dead_letters_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t dead_letters() const { return dead_letters_.load(std::memory_order_relaxed); }

  const FailureHooks& hooks() const { return hooks_; }

  /// Breaks the ownership cycle core -> executors -> core: now if every executor has ended, else when the last one
  /// ends.
  void forget_executors();
  void executor_ended();

 private:
  const FailureHooks hooks_;
  // Counters and a flag that order nothing: relaxed.
  std::atomic<ActorId> ids_{1};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> dead_letters_{0};
  std::atomic<std::uint32_t> turn_{0};
  std::vector<ExecutorPtr> pool_;  // constant from the start until every executor has ended
  bool own_threads_ = true;        // constant from the start

  mutable std::mutex mutex_;
  std::vector<ExecutorPtr> executors_;  // guarded by mutex_
  bool forgetting_ = false;             // guarded by mutex_
};

}  // namespace reprise::runtime
