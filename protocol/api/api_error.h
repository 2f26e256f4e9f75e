#pragma once
// What a client is told when something goes wrong; how it is told is the API's own (protocol/api/endpoint.h).
//
// BadRequest carries one from deep inside the reading of a request to its boundary, where it becomes a value.
//
// Threading: plain values.

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
  std::string message;  // may quote what clients sent, also bytes that are no UTF-8
  std::string code;     // "invalid_type", "model_not_found", ...
  std::string param{};  // the field of the request, as the client spells it: "messages[2].role"; may be empty
  std::optional<std::chrono::seconds> retry_after{};
  std::optional<ServiceError::Lengths> lengths{};  // of a prompt that is too long
};

ApiError to_api_error(const ServiceError& error);
/// Of an ask that the engine did not answer.
ApiError to_api_error(const runtime::Error& error);

/// OpenAI's envelope around what went wrong: {"error":{"message":…,"type":…,"param":…,"code":…}}. Messages may quote what clients sent: bytes that are
/// not UTF-8 are replaced by U+FFFD.
Json error_envelope(const ApiError& error);
/// OpenAI's word for the kind of error; follows from the status.
std::string_view error_type(const ApiError& error);

class BadRequest : public std::exception {
 public:
  explicit BadRequest(ApiError error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

/// Throw BadRequest. `message` follows the field's name: "temperature: must be ...".
[[noreturn]] void refuse_field(const std::string& field, std::string_view code, const std::string& message);
[[noreturn]] void refuse_unsupported(const std::string& field, const std::string& message);

}  // namespace reprise::protocol
