#pragma once
// An error for a client, independent of the API that formats it (protocol/api/endpoint.h). BadRequest carries
// one as an exception out of the parsing of a request.

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/service.h"

namespace reprise::protocol {

struct ApiError {
  int status = 400;
  std::string message;  // may quote client input, even invalid UTF-8
  std::string code;
  std::string param{};  // the field as the client spells it, e.g. "messages[2].role"; may be empty
  std::optional<std::chrono::seconds> retry_after{};
  std::optional<ServiceError::Lengths> lengths{};  // set if the prompt is too long
};

ApiError to_api_error(const ServiceError& error);
ApiError to_api_error(const runtime::Error& error);

/// Returns OpenAI's envelope: {"error":{"message":…,"type":…,"param":…,"code":…}}. Invalid UTF-8 in the
/// message is replaced by U+FFFD.
Json error_envelope(const ApiError& error);
std::string_view error_type(const ApiError& error);

class BadRequest : public std::exception {
 public:
  explicit BadRequest(ApiError error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

/// Both throw BadRequest. `message` follows the field's name: "temperature: must be ...".
[[noreturn]] void refuse_field(const std::string& field, std::string_view code, const std::string& message);
[[noreturn]] void refuse_unsupported(const std::string& field, const std::string& message);

}  // namespace reprise::protocol
