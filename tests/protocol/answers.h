#pragma once
// Helpers to inspect responses.

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "tools/lab/bench/http_client.h"

namespace reprise::protocol {

inline const std::string kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
/// default_script() holds its answer until FakeService::release().
inline const std::string kWaitingChat = R"({"messages":[{"role":"user","content":"wait in the queue"}]})";

/// A member that requests a streamed answer.
inline const std::string kStream = R"(,"stream":true)";

inline Json parsed(const std::string& text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *json : Json();
}

/// Returns a field of the error, or "no error".
inline std::string error_field(const ClientResponse& response, std::string_view name) {
  const Json json = parsed(response.body);
  const Json* error = json.is_object() ? json.find_object("error") : nullptr;
  const std::string* field = error == nullptr ? nullptr : error->find_string(name);
  return field == nullptr ? "no error" : *field;
}
inline std::string code_of(const ClientResponse& response) {
  return error_field(response, "code");
}

/// Returns the seconds of Retry-After; 0 if absent.
inline int retry_after_of(const ClientResponse& response) {
  constexpr std::string_view kName = "Retry-After: ";
  const std::size_t at = response.head.find(kName);
  return at == std::string::npos ? 0 : std::atoi(response.head.c_str() + at + kName.size());
}

}  // namespace reprise::protocol
