#include "protocol/openai/error_body.h"

#include "base/utf8.h"

namespace reprise::protocol::openai {

Json envelope(const ApiError& error) {
  Json body{{"message", as_utf8(error.message)},
            {"type", type_of(error)},
            {"param", nullptr},
            {"code", error.code}};
  if (!error.param.empty()) body["param"] = as_utf8(error.param);
  return Json{{"error", std::move(body)}};
}

std::string_view type_of(const ApiError& error) {
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

}  // namespace reprise::protocol::openai
