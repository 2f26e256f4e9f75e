#include "protocol/http/gate.h"

#include <charconv>

#include "protocol/http/cors.h"
#include "protocol/http/refusals.h"
#include "protocol/http/site_guard.h"

namespace reprise::protocol {
namespace {

/// 0 where the body comes in chunks, or there is none.
std::size_t declared_length(const HttpRequest& request) {
  const std::string_view text = request.header("content-length");
  std::size_t length = 0;
  std::from_chars(text.data(), text.data() + text.size(), length);
  return length;
}

}  // namespace

const Tenant* tenant_of(const HttpRequest& request, const HttpOptions& options) {
  static const Tenant kEverybody;
  if (options.keys.empty()) return &kEverybody;
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (authorization.size() > kBearer.size() && same_name(authorization.substr(0, kBearer.size()), kBearer)) {
    return options.keys.tenant_of(authorization.substr(kBearer.size()));
  }
  const std::string_view key = request.header("x-api-key");
  return key.empty() ? nullptr : options.keys.tenant_of(key);
}

std::optional<ApiError> objection(const HttpRequest& request, Seat seat, const ServerContext& context) {
  const Route& route = context.routes.find(request.path, request.method);
  if (seat == Seat::kReserve && !route.is_public && route.page != Page::kMetrics) {
    return server_busy("the server has reached its limit of open connections (http.max_connections)");
  }
  if (is_preflight(request)) return std::nullopt;
  if (auto objection = site_objection(request, context.options)) return objection;
  if (!route.exists()) {
    return ApiError{.status = 404, .message = "this path does not exist", .code = "not_found"};
  }
  if (request.method == "OPTIONS") return std::nullopt;
  if (!route.allows(request.method) && same_name(request.header("upgrade"), "websocket")) {
    // Clients that try a WebSocket first take this status for "use HTTP", and others for "try again".
    return ApiError{.status = 426,
                    .message = "WebSockets are not supported: send a POST to this path",
                    .code = "upgrade_required"};
  }
  if (!route.allows(request.method)) {
    return ApiError{
        .status = 405,
        .message = "method not allowed; this path accepts " + std::string(route.allowed_methods()),
        .code = "method_not_allowed"};
  }
  if (route.is_public) return std::nullopt;
  const Tenant* tenant = tenant_of(request, context.options);
  if (tenant == nullptr) {
    return ApiError{.status = 401, .message = "a valid API key is required", .code = "invalid_api_key"};
  }
  if (route.for_operators && !context.options.keys.empty() && !tenant->is_operator) {
    return ApiError{.status = 403,
                    .message =
                        "this request needs an operator's API key: one with 'operator = true' in a [[keys]] "
                        "table of the server's configuration",
                    .code = "operator_only"};
  }
  if (route.for_operators && route.method == HttpMethod::kPost) {
    if (auto objection = operator_site_objection(request, context.options)) return objection;
  }
  if (!context.body_budget.has_room(declared_length(request))) {
    return server_busy(
        "the server has reached its limit of unprocessed request bodies");
  }
  return std::nullopt;
}

}  // namespace reprise::protocol
