#include "actors/worker/model_loads.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "base/check.h"

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
  if (!thread_) thread_ = std::make_unique<StepThread>([] {});
  thread_->start([this] { load(); }, current_->done);
}

void ModelLoads::load() {
  try {
    std::unique_ptr<models::Model> model = current_->make();
    model->checkpoint().validate([this](std::uint64_t, std::uint64_t) {
      if (stopping_.load(std::memory_order_relaxed)) throw std::runtime_error("the device is being stopped");
    });
    result_.fingerprint = models::fingerprint_of(*model);
    result_.model = std::move(model);
  } catch (const std::bad_alloc&) {
    result_.error = JobError{JobFault::kNoMemory, "no memory for the weights"};
  } catch (const std::exception& error) {  // a file or a setting; what() names it
    result_.error = JobError{JobFault::kBadJob, error.what()};
  }
}

}  // namespace reprise::actors
