#include "protocol/api/api_error.h"

#include "base/utf8.h"

namespace reprise::protocol {

Json error_envelope(const Error& error) {
  const ShownError told = shown(error);
  Json body{{"message", as_utf8(error.message)},
            {"type", error_type(told.status)},
            {"param", nullptr},
            {"code", told.code}};
  if (!told.param.empty()) body["param"] = as_utf8(told.param);
  return Json{{"error", std::move(body)}};
}

std::string_view error_type(int status) {
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

void refuse_field(const std::string& field, std::string_view code, const std::string& message) {
  throw BadRequest({.kind = ErrorKind::kInvalid,
                    .message = field + ": " + message,
                    .param = field,
                    .code = std::string(code)});
}

void refuse_unsupported(const std::string& field, const std::string& message) {
  refuse_field(field, "unsupported_parameter", message);
}

}  // namespace reprise::protocol
