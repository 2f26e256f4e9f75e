#pragma once
// What tests look for in answers.

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "tools/lab/bench/http_client.h"

namespace reprise::protocol {

inline const std::string kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
/// Of default_script(): waits for FakeService::release().
inline const std::string kWaitingChat = R"({"messages":[{"role":"user","content":"wait in the queue"}]})";

/// In a request's members: its answer comes as a stream.
inline const std::string kStream = R"(,"stream":true)";

inline Json parsed(const std::string& text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *json : Json();
}

/// A field of the error, or why there is none.
inline std::string error_field(const ClientResponse& response, std::string_view name) {
  const Json json = parsed(response.body);
  const Json* error = json.is_object() ? json.find_object("error") : nullptr;
  const std::string* field = error == nullptr ? nullptr : error->find_string(name);
  return field == nullptr ? "no error" : *field;
}
inline std::string code_of(const ClientResponse& response) {
  return error_field(response, "code");
}

/// Seconds of Retry-After; 0 where there is none.
inline int retry_after_of(const ClientResponse& response) {
  constexpr std::string_view kName = "Retry-After: ";
  const std::size_t at = response.head.find(kName);
  return at == std::string::npos ? 0 : std::atoi(response.head.c_str() + at + kName.size());
}

}  // namespace reprise::protocol
