#include "protocol/api/api_error.h"

#include "base/utf8.h"

namespace reprise::protocol {

namespace {

constexpr std::chrono::seconds kRetryWhenOverloaded{1};
constexpr std::chrono::seconds kRetryWhenUnavailable{5};

}  // namespace

ApiError to_api_error(const ServiceError& error) {
  ApiError out{.message = error.message,
               .code = {},
               .param = error.field,
               .retry_after = error.retry_after,
               .lengths = error.lengths};
  switch (error.code) {
    case ServiceErrorCode::kInvalid:
      out.code = "invalid_value";
      break;
    case ServiceErrorCode::kUnknownModel:
      out.status = 404;
      out.code = "model_not_found";
      if (out.param.empty()) out.param = "model";
      break;
    case ServiceErrorCode::kTooLong:
      out.code = "context_length_exceeded";
      break;
    case ServiceErrorCode::kUnsupported:
      out.code = "unsupported_parameter";
      break;
    case ServiceErrorCode::kOverloaded:
      out.status = 429;
      out.code = "overloaded";
      if (!out.retry_after) out.retry_after = kRetryWhenOverloaded;
      break;
    case ServiceErrorCode::kUnavailable:
    case ServiceErrorCode::kCancelled:
      out.status = 503;
      out.code = error.code == ServiceErrorCode::kCancelled ? "cancelled" : "unavailable";
      if (!out.retry_after) out.retry_after = kRetryWhenUnavailable;
      break;
    case ServiceErrorCode::kInternal:
      out.status = 500;
      out.code = "internal_error";
      break;
  }
  return out;
}

ApiError to_api_error(const runtime::Error& error) {
  ApiError out{.status = 500, .message = error.describe(), .code = "internal_error"};
  switch (error.code) {
    case runtime::ErrorCode::kMailboxFull:
    case runtime::ErrorCode::kDropped:
    case runtime::ErrorCode::kDeadline:
      out.status = 429;
      out.code = "overloaded";
      out.retry_after = kRetryWhenOverloaded;
      break;
    case runtime::ErrorCode::kStopped:  // on its way back, or the server is on its way out
    case runtime::ErrorCode::kCancelled:
      out.status = 503;
      out.code = "unavailable";
      out.retry_after = kRetryWhenUnavailable;
      break;
    case runtime::ErrorCode::kNoReply:
    case runtime::ErrorCode::kFailed:
    case runtime::ErrorCode::kEnded:
    case runtime::ErrorCode::kIo:
      break;
  }
  return out;
}

Json error_envelope(const ApiError& error) {
  Json body{{"message", as_utf8(error.message)},
            {"type", error_type(error)},
            {"param", nullptr},
            {"code", error.code}};
  if (!error.param.empty()) body["param"] = as_utf8(error.param);
  return Json{{"error", std::move(body)}};
}

std::string_view error_type(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return error.status >= 500 ? "server_error" : "invalid_request_error";
  }
}

void refuse_field(const std::string& field, std::string_view code, const std::string& message) {
  throw BadRequest({.message = field + ": " + message, .code = std::string(code), .param = field});
}

void refuse_unsupported(const std::string& field, const std::string& message) {
  refuse_field(field, "unsupported_parameter", message);
}

}  // namespace reprise::protocol
