#include "protocol/jobs/job.h"

namespace reprise::protocol {

std::string_view name_of(JobFault fault) {
  switch (fault) {
    case JobFault::kUnknown:
      return "unknown id";
    case JobFault::kBadJob:
      return "bad job";
    case JobFault::kNeverFits:
      return "never fits";
    case JobFault::kNoMemory:
      return "no memory";
    case JobFault::kBusy:
      return "busy";
    case JobFault::kDamaged:
      return "damaged snapshot";
    case JobFault::kUnhealthy:
      return "state not finite";
    case JobFault::kCannotSample:
      return "no token can be sampled";
    case JobFault::kCancelled:
      return "cancelled";
    case JobFault::kDeviceFailed:
      return "device failed";
    case JobFault::kNoAnswer:
      return "no answer";
  }
  return "?";
}

}  // namespace reprise::protocol
