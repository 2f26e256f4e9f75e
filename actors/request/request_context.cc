#include "actors/request/request_context.h"

namespace reprise::actors {

using protocol::Error;
using protocol::ErrorKind;

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

RequestFailure RequestContext::failure_of(const protocol::Error& error) const {
  if (error.kind == ErrorKind::kNoAnswer) return unanswered(error.no_answer, error.message);
  Error failure = protocol::request_error(error);
  const bool is_lost = error.kind == ErrorKind::kUnknown || error.kind == ErrorKind::kDeviceFailed;
  if (is_lost && !lost_why.empty()) failure.message = lost_why;  // the reason in ModelLost is more specific
  return failure;
}

RequestFailure RequestContext::unanswered(runtime::ErrorCode code, const std::string& what) const {
  if (!lost_why.empty()) {
    return Error{ErrorKind::kUnavailable, lost_why, "", std::chrono::seconds(1)};
  }
  if (client_gone) return Error{ErrorKind::kCanceled, "the client has disconnected"};
  if (code == runtime::ErrorCode::kDeadline) {
    return Error{ErrorKind::kOverloaded, "the request waited too long for the device", "",
                 std::chrono::seconds(5)};
  }
  return Error{ErrorKind::kUnavailable, "the engine does not answer: " + what, "", std::chrono::seconds(1)};
}

}  // namespace reprise::actors
