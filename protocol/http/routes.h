#pragma once
// What can be asked for, and how.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::protocol {

enum class Route : std::uint8_t {
  kFrontPage,
  kHealth,
  kLive,
  kMetrics,
  kModels,
  kModel,
  kChat,
  kCompletion,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kUnknown,
};

Route route_of(std::string_view path);
/// For logs and metrics, so that what clients invent does not become a label: "/v1/models/{id}".
std::string_view name_of(Route route);
/// Of kModel: what stands behind /v1/models/, with %xx decoded.
std::string model_of_path(std::string_view path);

/// "GET, HEAD, OPTIONS"
std::string_view allowed_methods(Route route);
bool allows(Route route, std::string_view method);
/// Needs no key.
bool is_public(Route route);

}  // namespace reprise::protocol
