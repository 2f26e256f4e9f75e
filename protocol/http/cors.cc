#include "protocol/http/cors.h"

#include <algorithm>

namespace reprise::protocol {

namespace {

/// http or https, a name or an address of this machine, any port or none.
bool is_of_this_machine(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    origin.remove_prefix(scheme.size());
    for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
      if (!origin.starts_with(host)) continue;
      const std::string_view port = origin.substr(host.size());
      if (port.empty()) return true;
      return port.front() == ':' && port.size() > 1 && port.size() <= 6 &&
             port.find_first_not_of("0123456789", 1) == std::string_view::npos;
    }
  }
  return false;
}

}  // namespace

bool cors_allows(std::string_view origin, const std::vector<std::string>& allowed_origins) {
  return std::any_of(allowed_origins.begin(), allowed_origins.end(), [&](const std::string& one) {
    return one == "*" || one == origin || (one == "localhost" && is_of_this_machine(origin));
  });
}

Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || allowed_origins.empty()) return {};
  const bool all = std::find(allowed_origins.begin(), allowed_origins.end(), "*") != allowed_origins.end();
  if (all) {
    return {{"Access-Control-Allow-Origin", "*"},
            {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
  }
  if (!cors_allows(origin, allowed_origins)) {
    return {{"Vary", "Origin"}};
  }
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
}

bool is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.header("access-control-request-method").empty();
}

HttpResponse preflight_response(const HttpRequest& request, const std::string& allowed_methods) {
  HttpResponse response{.status = 200, .content_type = {}};
  response.headers.emplace_back("Access-Control-Allow-Methods", allowed_methods);
  const std::string_view wanted = request.header("access-control-request-headers");
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                wanted.empty() ? "Authorization, Content-Type" : std::string(wanted));
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace reprise::protocol
