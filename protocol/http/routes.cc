#include "protocol/http/routes.h"

#include <array>
#include <charconv>

namespace reprise::protocol {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

struct Row {
  Route route;
  std::string_view path;
  bool posts;
  bool open;  // needs no key
};

// In the order of Route.
constexpr std::array<Row, 12> kRows = {{
    {Route::kFrontPage, "/", false, true},
    {Route::kHealth, "/health", false, true},
    {Route::kLive, "/health/live", false, true},
    {Route::kMetrics, "/metrics", false, false},
    {Route::kModels, "/v1/models", false, false},
    {Route::kModel, "/v1/models/{id}", false, false},
    {Route::kChat, "/v1/chat/completions", true, false},
    {Route::kCompletion, "/v1/completions", true, false},
    {Route::kTokenize, "/tokenize", true, false},
    {Route::kDetokenize, "/detokenize", true, false},
    {Route::kApplyTemplate, "/apply-template", true, false},
    {Route::kUnknown, "?", false, false},
}};

const Row& row_of(Route route) {
  return kRows[static_cast<std::size_t>(route)];
}

}  // namespace

Route route_of(std::string_view path) {
  for (const Row& row : kRows) {
    if (row.path == path && row.route != Route::kModel && row.route != Route::kUnknown) return row.route;
  }
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) return Route::kModel;
  return Route::kUnknown;
}

std::string_view name_of(Route route) {
  return row_of(route).path;
}

std::string model_of_path(std::string_view path) {
  path.remove_prefix(kModelPrefix.size());
  std::string id;
  while (!path.empty()) {
    unsigned byte = 0;
    if (path[0] == '%' && path.size() >= 3 &&
        std::from_chars(path.data() + 1, path.data() + 3, byte, 16).ptr == path.data() + 3) {
      id += static_cast<char>(byte);
      path.remove_prefix(3);
    } else {
      id += path[0];
      path.remove_prefix(1);
    }
  }
  return id;
}

std::string_view allowed_methods(Route route) {
  return row_of(route).posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

bool allows(Route route, std::string_view method) {
  if (row_of(route).posts) return method == "POST";
  return method == "GET" || method == "HEAD";
}

bool is_public(Route route) {
  return row_of(route).open;
}

}  // namespace reprise::protocol
