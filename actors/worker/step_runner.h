#pragma once
// Runs one step of a loaded model: the forward pass over a batch. Where the model's rules say so, on a thread of
// its own while the worker goes on, else on the worker's; and prefill slices and decode rows together, or one
// after the other.
//
// StepThread does one piece of work at a time for a caller that does not wait. Where the next piece comes soon after the
// last, to be woken for it may take longer than to wait for it awake: the thread may look for work for a while before it
// sleeps.
//
// Threading: start() on the worker's thread, one step or piece of work at a time, and not before the last has ended, which
// its `done` tells: that is called once for each, on the thread that computed. Between the two, the sequences of the step
// belong to the runner. Destructors wait for what runs.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "models/model.h"

namespace reprise::actors {

class StepThread {
 public:
  /// `begin` is called first, on the thread. `looks`: how long it is awake without work.
  StepThread(const char* name, std::function<void()> begin, std::chrono::microseconds looks = {});
  ~StepThread();
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  /// `work`, then `done`, neither of which may throw.
  void start(std::function<void()> work, std::function<void()> done);

 private:
  void serve(const std::function<void()>& begin);
  void look_for_work() const;

  const std::chrono::microseconds looks_;
  std::atomic<bool> has_news_{false};  // work, or the end; what it is, the mutex guards
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // guarded by mutex_
  std::function<void()> done_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;          // last: it uses all of the above
};

struct StepWork {
  std::vector<models::Slice> prefills{};
  models::DecodePass decodes{};
  // Filled in, like what is filled in of `decodes`: a row of logits for each slice that asked, in order;
  // valid until the next step.
  std::span<const float> prefill_logits{};
  std::exception_ptr failure{};
};

class StepRunner {
 public:
  static std::unique_ptr<StepRunner> make(std::unique_ptr<models::Model> model);

  virtual ~StepRunner() = default;
  virtual const models::Model& model() const = 0;
  /// To be changed, on the worker's thread, while no step is under way.
  virtual models::Model& idle_model() = 0;
  virtual void start(StepWork& work, std::function<void()> done) = 0;
};

}  // namespace reprise::actors
