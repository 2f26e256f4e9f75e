#include "actors/worker/model_loads.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "traces/trace.h"

namespace reprise::actors {

using protocol::JobError;
using protocol::JobFault;

void ModelLoads::add(Job job) {
  waiting_.push_back(std::move(job));
  if (!current_) begin();
}

ModelLoads::Result ModelLoads::take() {
  REPRISE_CHECK(current_.has_value(), "nothing was loaded");
  Result result = std::move(result_);
  result.reply = std::move(current_->reply);
  result_ = {};
  current_.reset();
  if (!waiting_.empty()) begin();
  return result;
}

void ModelLoads::begin() {
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  if (!current_->aside) {
    load();
    return current_->done();
  }
  if (!thread_) thread_ = std::make_unique<StepThread>("model loader", [] {});
  thread_->start([this] { load(); }, current_->done);
}

void ModelLoads::report(std::uint32_t half, std::uint64_t done, std::uint64_t total) const {
  if (stopping_.load(std::memory_order_relaxed)) throw std::runtime_error("the device is being stopped");
  if (current_->meter == nullptr || total == 0) return;
  const auto permille = static_cast<std::uint32_t>(500 * half + 500 * done / total);
  current_->meter->permille.store(permille, std::memory_order_relaxed);
}

void ModelLoads::load() {
  static constexpr traces::ZoneSite kSite{"load model"};
  const traces::Zone zone(kSite);
  try {
    std::unique_ptr<models::Model> model =
        current_->make([this](std::uint64_t done, std::uint64_t total) { report(0, done, total); });
    model->checkpoint().validate([this](std::uint64_t done, std::uint64_t total) { report(1, done, total); });
    result_.fingerprint = models::fingerprint_of(*model);
    result_.model = std::move(model);
  } catch (const std::bad_alloc&) {
    result_.error = JobError{JobFault::kNoMemory, "no memory for the weights"};
  } catch (const std::exception& error) {  // a file or a setting; what() names it
    result_.error = JobError{JobFault::kBadJob, error.what()};
  }
}

}  // namespace reprise::actors
