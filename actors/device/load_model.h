#pragma once
// Loads a model (constructs, validates and fingerprints it) and reads adapters.
//
// LoadQueue runs one load at a time, in arrival order, on its own thread, or on the worker's if the device
// requires that (GPU memory has a single owner). The destructor asks a load in progress to stop and waits for
// it.
//
// Threading: a LoadQueue is used on the worker's thread; its jobs run on the loader's or the worker's.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "actors/device/step_runner.h"
#include "base/check.h"
#include "models/adapters/adapter.h"
#include "models/fingerprint.h"
#include "models/model.h"
#include "protocol/jobs/models.h"
#include "runtime/reply.h"

namespace reprise::actors {

/// `Made` is the result of a load, `Loaded` the answer to its sender.
template <class Made, class Loaded>
class LoadQueue {
 public:
  using Answer = protocol::JobResult<Loaded>;

  struct Job {
    /// Reads the files. Throws on errors; may throw when `stopping` is set.
    std::function<Made(const std::atomic<bool>& stopping)> make;
    bool aside = false;          // run on the loader thread
    std::function<void()> done;  // called on the loading thread; makes the worker call take()
    runtime::ReplyTo<Answer> reply;
  };
  /// Has either `made` or `error`.
  struct Result {
    std::optional<Made> made;
    std::optional<protocol::Error> error;
    runtime::ReplyTo<Answer> reply;
  };

  /// `name` names the thread.
  explicit LoadQueue(const char* name) : name_(name) {}
  ~LoadQueue() { stopping_.store(true, std::memory_order_relaxed); }
  LoadQueue(const LoadQueue&) = delete;
  LoadQueue& operator=(const LoadQueue&) = delete;

  void add(Job job) {
    waiting_.push_back(std::move(job));
    if (!current_) begin();
  }

  /// Returns the finished load and starts the next. Requires: `done` was called.
  Result take() {
    REPRISE_CHECK(current_.has_value(), "take() without a finished load");
    Result result = std::move(result_);
    result.reply = std::move(current_->reply);
    result_ = {};
    current_.reset();
    if (!waiting_.empty()) begin();
    return result;
  }

 private:
  void begin() {
    current_ = std::move(waiting_.front());
    waiting_.pop_front();
    if (!current_->aside) {
      load();
      return current_->done();
    }
    if (!thread_) thread_ = std::make_unique<StepThread>(name_, [] {});
    thread_->start([this] { load(); }, current_->done);
  }

  void load() {
    using protocol::ErrorKind;
    try {
      result_.made.emplace(current_->make(stopping_));
    } catch (const std::bad_alloc&) {
      result_.error = protocol::Error{ErrorKind::kNoMemory, "no memory for the weights"};
    } catch (const std::exception& error) {  // a bad file or setting; what() names it
      result_.error = protocol::Error{ErrorKind::kBadJob, error.what()};
    }
  }

  const char* name_;
  std::deque<Job> waiting_;
  std::optional<Job> current_;          // the worker does not touch it during a load
  Result result_;                       // likewise
  std::atomic<bool> stopping_{false};   // relaxed: publishes no other data
  std::unique_ptr<StepThread> thread_;  // null until needed; last, since its destructor waits for a load
};

struct LoadedModel {
  std::unique_ptr<models::Model> model;
  models::Fingerprint fingerprint;
};
using ModelLoads = LoadQueue<LoadedModel, protocol::ArchLoaded>;

struct ReadAdapter {
  std::uint32_t generation = 0;  // generation of its model
  models::Adapter adapter;
};
using AdapterLoads = LoadQueue<ReadAdapter, protocol::AdapterLoaded>;

/// Constructs the model and reports progress.
using MakeModel = std::function<std::unique_ptr<models::Model>(const models::LoadProgress&)>;

/// Constructs the model, then validates and fingerprints its weights. `meter` (may be null) shows loading as
/// the first half of the progress and validation as the second. Throws the errors of `make`, LoadError, and
/// std::runtime_error when `stopping` is set.
LoadedModel load_model(const MakeModel& make, const std::atomic<bool>& stopping, protocol::LoadMeter* meter);

}  // namespace reprise::actors
