#include "protocol/http/cors.h"

#include <algorithm>

namespace reprise::protocol {

Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || allowed_origins.empty()) return {};
  const bool all = std::find(allowed_origins.begin(), allowed_origins.end(), "*") != allowed_origins.end();
  if (all) {
    return {{"Access-Control-Allow-Origin", "*"},
            {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
  }
  if (std::find(allowed_origins.begin(), allowed_origins.end(), origin) == allowed_origins.end()) {
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
  HttpResponse response{.status = 204, .content_type = {}};
  response.headers.emplace_back("Access-Control-Allow-Methods", allowed_methods);
  const std::string_view wanted = request.header("access-control-request-headers");
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                wanted.empty() ? "Authorization, Content-Type" : std::string(wanted));
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

}  // namespace reprise::protocol
