#pragma once
// StepRunner runs the forward pass of a step. Depending on the model's rules it runs on its own thread or on
// the worker's, and computes prefill slices and decode rows together or one after the other.
//
// StepThread runs one piece of work at a time without blocking the caller. It may spin for a while before it
// sleeps, since waking it can take longer than the gap between two steps.
//
// Threading: start() is called on the worker's thread, and only after the previous work has called `done`,
// which is called once per start() on the computing thread. Between the two, the sequences of the step belong
// to the runner. Destructors wait for running work.

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
  /// Calls `begin` on the new thread first. `looks` is how long the thread spins without work before it
  /// sleeps.
  StepThread(const char* name, std::function<void()> begin, std::chrono::microseconds looks = {});
  ~StepThread();
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;

  /// Runs `work`, then `done`. Neither may throw.
  void start(std::function<void()> work, std::function<void()> done);

 private:
  void serve(const std::function<void()>& begin);
  void look_for_work() const;

  const std::chrono::microseconds looks_;
  std::atomic<bool> has_news_{false};  // there is work, or the thread must end; the mutex guards which
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // guarded by mutex_
  std::function<void()> done_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;          // last: uses all of the above
};

struct StepWork {
  std::vector<models::Slice> prefills{};
  models::DecodePass decodes{};
  // Results, as those in `decodes`: one row of logits for each slice that asked, in order; valid until the
  // next step.
  std::span<const float> prefill_logits{};
  std::exception_ptr failure{};
};

class StepRunner {
 public:
  static std::unique_ptr<StepRunner> make(std::unique_ptr<models::Model> model);

  virtual ~StepRunner() = default;
  virtual const models::Model& model() const = 0;
  /// Returns the model for changes. Requires: the worker's thread, and no step in progress.
  virtual models::Model& idle_model() = 0;
  virtual void start(StepWork& work, std::function<void()> done) = 0;
};

}  // namespace reprise::actors
