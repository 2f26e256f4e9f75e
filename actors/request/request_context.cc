#include "actors/request/request_context.h"

namespace reprise::actors {

using protocol::JobFault;
using protocol::ServiceError;
using protocol::ServiceErrorCode;

bool RequestContext::caches() const {
  return job.request->cache.enabled && job.model->registry;
}

double RequestContext::since_arrival_ms() const {
  return std::chrono::duration<double, std::milli>(runtime::Clock::now() - arrival).count();
}

void RequestContext::break_off() {
  lost.cancel();
  all_begun.cancel();
}

RequestFailure RequestContext::failure_of(const protocol::JobError& error) const {
  if (error.kind == JobFault::kNoAnswer) return unanswered(error.no_answer, error.message);
  ServiceError failure = protocol::request_error(error);
  const bool is_lost = error.kind == JobFault::kUnknown || error.kind == JobFault::kDeviceFailed;
  if (is_lost && !lost_why.empty()) failure.message = lost_why;  // the reason in ModelLost is more specific
  return failure;
}

RequestFailure RequestContext::unanswered(runtime::ErrorCode code, const std::string& what) const {
  if (!lost_why.empty()) {
    return ServiceError{ServiceErrorCode::kUnavailable, lost_why, "", std::chrono::seconds(1)};
  }
  if (client_gone) return ServiceError{ServiceErrorCode::kCanceled, "the client has disconnected"};
  if (code == runtime::ErrorCode::kDeadline) {
    return ServiceError{ServiceErrorCode::kOverloaded, "the request waited too long for the device", "",
                        std::chrono::seconds(5)};
  }
  return ServiceError{ServiceErrorCode::kUnavailable, "the engine does not answer: " + what, "",
                      std::chrono::seconds(1)};
}

}  // namespace reprise::actors
