#pragma once
// Errors in OpenAI's form, which APIs without one of their own use, and BadRequest, which carries an error
// out of the parsing of a request.

#include <exception>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/error.h"

namespace reprise::protocol {

/// Returns OpenAI's envelope: {"error":{"message":…,"type":…,"param":…,"code":…}}. Invalid UTF-8 in the
/// message is replaced by U+FFFD.
Json error_envelope(const Error& error);
/// Returns OpenAI's type of errors with this status, e.g. "rate_limit_error".
std::string_view error_type(int status);

class BadRequest : public std::exception {
 public:
  explicit BadRequest(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// Both throw BadRequest. `message` follows the field's name: "temperature: must be ...".
[[noreturn]] void refuse_field(const std::string& field, std::string_view code, const std::string& message);
[[noreturn]] void refuse_unsupported(const std::string& field, const std::string& message);

}  // namespace reprise::protocol
