#pragma once
// ModelLoads: models on their way into memory, one after the other, on a thread of their own: read, brought into order,
// validated and digested, while the models that are there compute. Where the device cannot have that (a GPU's memory
// has one owner), on the worker's thread.
//
// At most one is under way on a device; the others wait in the order they came. The end of this object stops what is
// under way at its next stretch of bytes and waits for it.
//
// Threading: the worker's thread, but for what it says of itself.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "actors/worker/step_thread.h"
#include "models/fingerprint.h"
#include "models/model.h"
#include "protocol/job.h"
#include "runtime/reply.h"

namespace reprise::actors {

class ModelLoads {
 public:
  using Answer = protocol::JobResult<protocol::ArchLoaded>;
  /// Reads the files and makes the model, and tells how far it is. Throws.
  using Make = std::function<std::unique_ptr<models::Model>(const models::LoadProgress&)>;

  struct Job {
    Make make;
    bool aside = false;          // on another thread than the worker's
    std::function<void()> done;  // tells the worker to take(); on the thread that loaded
    runtime::ReplyTo<Answer> reply;
    std::shared_ptr<protocol::LoadMeter> meter{};  // null: nobody looks
  };
  /// What came of a job: a model with its fingerprint, or an error.
  struct Result {
    std::unique_ptr<models::Model> model;
    models::Fingerprint fingerprint;
    std::optional<protocol::JobError> error;
    runtime::ReplyTo<Answer> reply;
  };

  ModelLoads() = default;
  ~ModelLoads() { stopping_.store(true, std::memory_order_relaxed); }
  ModelLoads(const ModelLoads&) = delete;
  ModelLoads& operator=(const ModelLoads&) = delete;

  void add(Job job);
  /// After `done`: what is finished. The next begins.
  Result take();

 private:
  void begin();
  void load();
  /// Where the files are read: `done` of `total` in the first or second half of the work.
  void report(std::uint32_t half, std::uint64_t done, std::uint64_t total) const;

  std::deque<Job> waiting_;
  std::optional<Job> current_;          // untouched by the worker's thread while it is loaded
  Result result_;                       // likewise
  std::atomic<bool> stopping_{false};   // relaxed: a wish, nothing is published with it
  std::unique_ptr<StepThread> thread_;  // none until it is needed; last: its end waits for a load
};

}  // namespace reprise::actors
