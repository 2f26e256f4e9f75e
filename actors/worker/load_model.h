#pragma once
// A model from its files: made, validated and digested; and an adapter, which is read alone.
//
// LoadQueue has them read one after the other, on a thread of its own, while the models that are there compute. Where the
// device cannot have that (a GPU's memory has one owner), on the worker's thread. At most one is under way; the others wait
// in the order they came. The end of this object asks what is under way to stop, and waits for it.
//
// Threading: LoadQueue on the worker's thread, but for what it says of itself; the rest on any that the device lets load.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "actors/worker/step_runner.h"
#include "base/check.h"
#include "models/adapters/adapter.h"
#include "models/fingerprint.h"
#include "models/model.h"
#include "protocol/job.h"
#include "runtime/reply.h"

namespace reprise::actors {

/// `Made` is what comes of a job, `Loaded` what its sender is told.
template <class Made, class Loaded>
class LoadQueue {
 public:
  using Answer = protocol::JobResult<Loaded>;

  struct Job {
    /// Reads the files. Throws; may, when `stopping` is set.
    std::function<Made(const std::atomic<bool>& stopping)> make;
    bool aside = false;          // on another thread than the worker's
    std::function<void()> done;  // tells the worker to take(); on the thread that loaded
    runtime::ReplyTo<Answer> reply;
  };
  /// Either of the first two.
  struct Result {
    std::optional<Made> made;
    std::optional<protocol::JobError> error;
    runtime::ReplyTo<Answer> reply;
  };

  /// `name`: of the thread.
  explicit LoadQueue(const char* name) : name_(name) {}
  ~LoadQueue() { stopping_.store(true, std::memory_order_relaxed); }
  LoadQueue(const LoadQueue&) = delete;
  LoadQueue& operator=(const LoadQueue&) = delete;

  void add(Job job) {
    waiting_.push_back(std::move(job));
    if (!current_) begin();
  }

  /// After `done`: what is finished. The next begins.
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
    using protocol::JobFault;
    try {
      result_.made.emplace(current_->make(stopping_));
    } catch (const std::bad_alloc&) {
      result_.error = protocol::JobError{JobFault::kNoMemory, "no memory for the weights"};
    } catch (const std::exception& error) {  // a file or a setting; what() names it
      result_.error = protocol::JobError{JobFault::kBadJob, error.what()};
    }
  }

  const char* name_;
  std::deque<Job> waiting_;
  std::optional<Job> current_;          // untouched by the worker's thread while it is loaded
  Result result_;                       // likewise
  std::atomic<bool> stopping_{false};   // relaxed: a wish, nothing is published with it
  std::unique_ptr<StepThread> thread_;  // none until it is needed; last: its end waits for a load
};

struct LoadedModel {
  std::unique_ptr<models::Model> model;
  models::Fingerprint fingerprint;
};
using ModelLoads = LoadQueue<LoadedModel, protocol::ArchLoaded>;

struct ReadAdapter {
  std::uint32_t generation = 0;  // of the model that it is for
  models::Adapter adapter;
};
using AdapterLoads = LoadQueue<ReadAdapter, protocol::AdapterLoaded>;

/// Makes the model, and tells how far it is.
using MakeModel = std::function<std::unique_ptr<models::Model>(const models::LoadProgress&)>;

/// `meter` shows how far it is: the first half is done when the weights are in order, the second when they are read
/// through; null: nobody looks. Throws what `make` does, LoadError, and std::runtime_error where it was to stop.
LoadedModel load_model(const MakeModel& make, const std::atomic<bool>& stopping, protocol::LoadMeter* meter);

}  // namespace reprise::actors
