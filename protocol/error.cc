#include "protocol/error.h"

#include <array>
#include <cstddef>

#include "base/check.h"

namespace reprise::protocol {
namespace {

using std::chrono::seconds;

struct Row {
  ErrorKind kind;
  ErrorKind of_request;  // kind of the request that needed the job; others: `kind`
  int status;
  std::string_view code;
  seconds retry{0};          // 0: a retry does not help
  std::string_view param{};  // if the error names none
};

using enum ErrorKind;
constexpr std::array kRows = {
    Row{kInvalid, kInvalid, 400, "invalid_value"},
    Row{kUnknownModel, kUnknownModel, 404, "model_not_found", seconds(0), "model"},
    Row{kTooLong, kTooLong, 400, "context_length_exceeded"},
    Row{kUnsupported, kUnsupported, 400, "unsupported_parameter"},
    Row{kOverloaded, kOverloaded, 429, "overloaded", seconds(1)},
    Row{kUnavailable, kUnavailable, 503, "unavailable", seconds(5)},
    Row{kInternal, kInternal, 500, "internal_error"},
    Row{kCanceled, kCanceled, 503, "cancelled", seconds(5)},

    Row{kUnauthorized, kUnauthorized, 401, "invalid_api_key"},
    Row{kForbidden, kForbidden, 403, "forbidden"},
    Row{kNotFound, kNotFound, 404, "not_found"},
    Row{kMethodNotAllowed, kMethodNotAllowed, 405, "method_not_allowed"},
    Row{kTooSlow, kTooSlow, 408, "body_timeout"},
    Row{kConflict, kConflict, 409, "conflict"},
    Row{kBodyTooLarge, kBodyTooLarge, 413, "body_too_long"},
    Row{kMediaType, kMediaType, 415, "unsupported_media_type"},
    Row{kExpectation, kExpectation, 417, "expectation_failed"},
    Row{kUpgradeRequired, kUpgradeRequired, 426, "upgrade_required"},
    Row{kHeadTooLarge, kHeadTooLarge, 431, "headers_too_long"},
    Row{kNotImplemented, kNotImplemented, 501, "unsupported"},

    Row{kUnknown, kUnavailable, 503, "unavailable", seconds(1)},
    Row{kBadJob, kInternal, 500, "internal_error"},
    Row{kNeverFits, kTooLong, 400, "context_length_exceeded"},
    Row{kNoMemory, kOverloaded, 429, "overloaded", seconds(1)},
    Row{kBusy, kOverloaded, 429, "overloaded", seconds(1)},
    Row{kDamaged, kInternal, 500, "internal_error"},
    Row{kUnhealthy, kInternal, 500, "internal_error"},
    Row{kCannotSample, kInvalid, 400, "invalid_value", seconds(0), "logit_bias"},
    Row{kDeviceFailed, kUnavailable, 503, "unavailable", seconds(1)},
    Row{kNoAnswer, kUnavailable, 503, "unavailable", seconds(1)},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].kind) != i) return false;
  }
  return kRows.back().kind == kNoAnswer;
}
static_assert(rows_are_in_order());

const Row& row_of(ErrorKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  REPRISE_CHECK(index < kRows.size(), "an error without a kind");
  return kRows[index];
}

}  // namespace

Error unanswered_error(const runtime::Error& error) {
  Error out{ErrorKind::kInternal, error.describe()};
  switch (error.code) {
    case runtime::ErrorCode::kMailboxFull:
    case runtime::ErrorCode::kDropped:
    case runtime::ErrorCode::kDeadline:
      out.kind = ErrorKind::kOverloaded;
      break;
    case runtime::ErrorCode::kStopped:  // restarting, or the server is stopping
    case runtime::ErrorCode::kCanceled:
      out.kind = ErrorKind::kUnavailable;
      break;
    case runtime::ErrorCode::kNoReply:
    case runtime::ErrorCode::kFailed:
    case runtime::ErrorCode::kEnded:
    case runtime::ErrorCode::kIo:
      break;
  }
  return out;
}

Error request_error(Error error) {
  const Row& row = row_of(error.kind);
  if (row.of_request == row.kind) return error;
  if (!error.retry_after && row.retry > seconds(0)) error.retry_after = row.retry;
  if (error.param.empty()) error.param = row.param;
  error.kind = row.of_request;
  return error;
}

ShownError shown(const Error& error) {
  const Row& row = row_of(error.kind);
  ShownError out{.status = row.status,
                 .code = error.code.empty() ? std::string(row.code) : error.code,
                 .param = error.param.empty() ? std::string(row.param) : error.param,
                 .retry_after = error.retry_after};
  if (!out.retry_after && row.retry > seconds(0)) out.retry_after = row.retry;
  return out;
}

}  // namespace reprise::protocol
