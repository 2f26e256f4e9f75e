#include "protocol/http/routes.h"

#include "base/check.h"
#include "protocol/api/fields.h"

namespace reprise::protocol {
namespace {

/// The part of a route's path before {…}; empty where it has none.
std::string_view fixed_part(std::string_view path) {
  return path.ends_with('}') ? path.substr(0, path.find('{')) : std::string_view();
}

bool leads_to(const Route& route, std::string_view path) {
  const std::string_view fixed = fixed_part(route.path);
  return fixed.empty() ? path == route.path : path.size() > fixed.size() && path.starts_with(fixed);
}

}  // namespace

bool Route::allows(std::string_view method_name) const {
  if (!exists()) return false;
  if (method == HttpMethod::kPost) return method_name == "POST";
  if (method == HttpMethod::kGetDelete && method_name == "DELETE") return true;
  return method_name == "GET" || method_name == "HEAD";
}

std::string Route::path_end(std::string_view asked) const {
  const std::string_view fixed = fixed_part(path);
  if (fixed.empty()) return {};
  asked.remove_prefix(fixed.size());
  return percent_decoded(asked);
}

RouteTable::RouteTable(ApiTable apis, bool front_page) : nothing_{.path = "?", .elsewhere = apis.elsewhere} {
  REPRISE_CHECK(apis.elsewhere != nullptr, "no API is set for errors at unknown paths");
  const auto add_page = [&](std::string path, Page page, bool is_public) {
    routes_.push_back({.path = std::move(path),
                       .page = page,
                       .elsewhere = apis.elsewhere,
                       .is_public = is_public,
                       .for_operators = page == Page::kMetrics});
  };
  if (front_page) {
    for (const PageFile& file : page_files()) {
      add_page(std::string(file.path), Page::kFile, true);
      routes_.back().file = &file;
    }
  }
  add_page("/health", Page::kHealth, true);
  add_page("/health/live", Page::kLive, true);
  add_page("/metrics", Page::kMetrics, false);
  for (ApiRoute& api : apis.routes) {
    REPRISE_CHECK(api.endpoint != nullptr, "a route has no endpoint");
    routes_.push_back({.method = api.method,
                       .path = std::move(api.path),
                       .endpoint = std::move(api.endpoint),
                       .elsewhere = apis.elsewhere,
                       .generates = api.generates,
                       .is_public = api.is_public,
                       .for_operators = api.for_operators});
  }
  for (Route& route : routes_) {
    for (const Route& other : routes_) {
      if (other.path != route.path) continue;
      route.methods += other.method == HttpMethod::kPost        ? "POST, "
                       : other.method == HttpMethod::kGetDelete ? "GET, HEAD, DELETE, "
                                                                : "GET, HEAD, ";
    }
    route.methods += "OPTIONS";
  }
  nothing_.methods = "OPTIONS";
}

const Route& RouteTable::find(std::string_view path, std::string_view method) const {
  const Route* found = nullptr;
  for (const Route& route : routes_) {
    if (!leads_to(route, path)) continue;
    if (route.allows(method)) return route;
    if (found == nullptr) found = &route;
  }
  return found == nullptr ? nothing_ : *found;
}

}  // namespace reprise::protocol
