#include "protocol/openai/api_error.h"

namespace reprise::protocol {

Json ApiError::envelope() const {
  Json error{{"message", message}, {"type", type()}, {"param", nullptr}, {"code", code}};
  if (!param.empty()) error["param"] = param;
  return Json{{"error", std::move(error)}};
}

std::string_view ApiError::type() const {
  switch (status) {
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
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

ApiError to_api_error(const ServiceError& error) {
  ApiError out{.message = error.message, .code = {}, .param = error.field, .retry_after = error.retry_after};
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
      if (!out.retry_after) out.retry_after = std::chrono::seconds(1);
      break;
    case ServiceErrorCode::kUnavailable:
    case ServiceErrorCode::kCancelled:
      out.status = 503;
      out.code = error.code == ServiceErrorCode::kCancelled ? "cancelled" : "unavailable";
      if (!out.retry_after) out.retry_after = std::chrono::seconds(5);
      break;
    case ServiceErrorCode::kInternal:
      out.status = 500;
      out.code = "internal_error";
      break;
  }
  return out;
}

void refuse_field(const std::string& field, std::string_view code, const std::string& message) {
  throw BadRequest({.message = field + ": " + message, .code = std::string(code), .param = field});
}

void refuse_unsupported(const std::string& field, const std::string& message) {
  refuse_field(field, "unsupported_parameter", message);
}

}  // namespace reprise::protocol
