#include "protocol/anthropic/error_body.h"

#include "base/utf8.h"

namespace reprise::protocol::anthropic {

Json envelope(const ApiError& error) {
  std::string message = as_utf8(error.message);
  // By these words clients know that they have to make their conversation shorter.
  if (error.code == "context_length_exceeded") message = "prompt is too long: " + message;
  Json body{{"type", type_of(error)}, {"message", std::move(message)}};
  return Json{{"type", "error"}, {"error", std::move(body)}};
}

int status_of(const ApiError& error) {
  constexpr int kOverloaded = 529;
  return error.status == 503 ? kOverloaded : error.status;
}

std::string_view type_of(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return error.status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace reprise::protocol::anthropic
