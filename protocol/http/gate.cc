#include "protocol/http/gate.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace reprise::protocol {

namespace {

/// Accepts any port or none.
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

/// Returns true if the origin is listed, "*" is listed, or "localhost" is listed and the origin is this
/// machine.
bool cors_allows(std::string_view origin, const std::vector<std::string>& allowed_origins) {
  return std::any_of(allowed_origins.begin(), allowed_origins.end(), [&](const std::string& one) {
    return one == "*" || one == origin || (one == "localhost" && is_of_this_machine(origin));
  });
}

/// "host:8080" -> "host"; "[::1]:8080" -> "[::1]".
std::string_view name_in(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

/// "https://host:8080" -> "host:8080".
std::string_view authority_in(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
}

bool is_address(std::string_view name) {
  if (name.starts_with('[')) return name.ends_with(']');
  return !name.empty() && name.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_own_name(std::string_view name, const HttpOptions& options) {
  if (is_address(name) || same_name(name, "localhost") || same_name(name, options.host)) return true;
  const auto is_name = [name](const std::string& one) { return one == "*" || same_name(one, name); };
  if (std::ranges::any_of(options.allowed_hosts, is_name)) return true;
  return std::ranges::any_of(options.cors_origins, [&](const std::string& origin) {
    return origin.find("://") != std::string::npos && same_name(name_in(authority_in(origin)), name);
  });
}

bool is_own_origin(std::string_view origin, std::string_view host, const HttpOptions& options) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  }
  return std::ranges::any_of(options.cors_origins, [&](const std::string& one) {
    return one == origin && one.find("://") != std::string::npos;
  });
}

bool is_json(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  return same_name(content_type, "application/json");
}

Error another_site(std::string message) {
  return {.kind = ErrorKind::kForbidden, .message = std::move(message), .code = "another_site"};
}

std::optional<Error> site_objection(const HttpRequest& request, const HttpOptions& options) {
  if (!options.keys.empty()) return std::nullopt;
  const std::string_view host = request.header("host");  // optional in HTTP/1.0, which no browser speaks
  if (!host.empty() && !is_own_name(name_in(host), options)) {
    return another_site("Host: '" + std::string(name_in(host)) +
                        "' is no name of this server; --allowed-hosts (http.allowed_hosts) adds names");
  }
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && !is_own_origin(origin, host, options) &&
      !cors_allows(origin, options.cors_origins)) {
    return another_site("Origin: pages of '" + std::string(origin) +
                        "' may not use this server; --cors-origins (http.cors_origins) adds origins");
  }
  const bool opens_page = request.method == "GET" && request.header("sec-fetch-mode") == "navigate";
  if (origin.empty() && request.header("sec-fetch-site") == "cross-site" && !opens_page &&
      !cors_allows("", options.cors_origins)) {
    return another_site("Sec-Fetch-Site: pages of other sites may not use this server");
  }
  return std::nullopt;
}

/// The stricter check for POSTs to operator routes.
std::optional<Error> operator_site_objection(const HttpRequest& request, const HttpOptions& options) {
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && !is_own_origin(origin, request.header("host"), options)) {
    return another_site("Origin: pages of other sites may not ask for this");
  }
  if (origin.empty() && request.header("sec-fetch-site") == "cross-site") {
    return another_site("Sec-Fetch-Site: pages of other sites may not ask for this");
  }
  if (!is_json(request.header("content-type"))) {
    return Error{ErrorKind::kMediaType, "Content-Type: must be application/json"};
  }
  return std::nullopt;
}

/// Returns 0 for a chunked body or none.
std::size_t declared_length(const HttpRequest& request) {
  const std::string_view text = request.header("content-length");
  std::size_t length = 0;
  std::from_chars(text.data(), text.data() + text.size(), length);
  return length;
}

/// Null: no valid key.
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

std::optional<Error> objection_to(const HttpRequest& request, Seat seat, const Route& route,
                                  const Tenant* tenant, const ServerContext& context) {
  if (seat == Seat::kReserve && !route.is_public && route.page != Page::kMetrics) {
    return server_busy("the server has reached its limit of open connections (http.max_connections)");
  }
  if (is_preflight(request)) return std::nullopt;
  if (auto rejection = site_objection(request, context.options)) return rejection;
  if (!route.exists()) {
    return Error{ErrorKind::kNotFound, "this path does not exist"};
  }
  if (request.method == "OPTIONS") return std::nullopt;
  if (!route.allows(request.method) && same_name(request.header("upgrade"), "websocket")) {
    // Clients that try a WebSocket first take this status for "use HTTP", and others for "try again".
    return Error{ErrorKind::kUpgradeRequired, "WebSockets are not supported: send a POST to this path"};
  }
  if (!route.allows(request.method)) {
    return Error{ErrorKind::kMethodNotAllowed,
                 "method not allowed; this path accepts " + std::string(route.allowed_methods())};
  }
  if (route.is_public) return std::nullopt;
  if (tenant == nullptr) {
    return Error{ErrorKind::kUnauthorized, "a valid API key is required"};
  }
  if (route.for_operators && !context.options.keys.empty() && !tenant->is_operator) {
    return Error{.kind = ErrorKind::kForbidden,
                 .message =
                     "this request needs an operator's API key: one with 'operator = true' in a [[keys]] "
                     "table of the server's configuration",
                 .code = "operator_only"};
  }
  if (route.for_operators && route.method == HttpMethod::kPost) {
    if (auto rejection = operator_site_objection(request, context.options)) return rejection;
  }
  if (!context.body_budget.has_capacity(declared_length(request))) {
    return server_busy("the server has reached its limit of unprocessed request bodies");
  }
  return std::nullopt;
}

}  // namespace

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

Admission admission_of(const HttpRequest& request, Seat seat, const ServerContext& context,
                       std::optional<Error> malformed) {
  static const Tenant kNobody;
  const Route& route = context.routes.find(request.path, request.method);
  if (malformed) return {.route = route, .tenant = kNobody, .rejection = std::move(malformed)};
  const Tenant* tenant = tenant_of(request, context.options);
  return {.route = route,
          .tenant = tenant == nullptr ? kNobody : *tenant,
          .rejection = objection_to(request, seat, route, tenant, context)};
}

// -- limits

namespace {

Error too_many_requests(std::uint32_t max) {
  return {.kind = ErrorKind::kOverloaded,
          .message = "the server has reached its limit of requests answered at once (http.max_requests): " +
                     std::to_string(max),
          .code = "too_many_requests"};
}

/// The request alone exceeds the limit, so a retry cannot succeed.
Error never_fits(std::uint64_t wanted, std::uint32_t max) {
  return {.kind = ErrorKind::kInvalid,
          .message = "n: the request asks for " + std::to_string(wanted) +
                     " replies at once; the server's limit is " + std::to_string(max),
          .param = "n",
          .code = "too_many"};
}

Error over_limit(const OverLimit& over, const Tenant& tenant) {
  Error error{.kind = ErrorKind::kOverloaded, .retry_after = over.retry_after};
  if (over.of == OverLimit::Of::kRequests) {
    error.message = "this API key has reached its limit of " + std::to_string(tenant.requests) +
                    " requests answered at once";
    error.code = "tenant_requests";
  } else {
    error.message = "this API key has reached its limit of " + std::to_string(tenant.tokens_per_minute) +
                    " tokens per minute";
    error.code = "tenant_tokens";
  }
  return error;
}

}  // namespace

std::optional<Error> WorkReservation::full(const ServerContext& context) {
  if (context.generations < context.options.requests) return std::nullopt;
  return too_many_requests(context.options.requests);
}

std::optional<Error> WorkReservation::enter(std::uint32_t requests) {
  if (const auto over = context_.meter.enter(tenant_, requests, runtime::Clock::now())) {
    return over_limit(*over, tenant_);
  }
  entered_ = requests;
  return std::nullopt;
}

std::optional<Error> WorkReservation::enter_text() {
  return enter(1);
}

std::optional<Error> WorkReservation::enter_replies(std::uint32_t prompts, std::uint32_t n) {
  const std::uint64_t wanted = std::uint64_t{prompts} * n;
  const std::uint32_t max = context_.options.requests;
  if (wanted > max) return never_fits(wanted, max);
  const auto count = static_cast<std::uint32_t>(wanted);
  if (tenant_.requests > 0 && count > tenant_.requests) return never_fits(count, tenant_.requests);
  if (count > max - context_.generations) return too_many_requests(max);
  if (auto over = enter(count)) return over;
  replies_ = count;
  account_.expect_prompts(prompts);
  context_.generations += count;
  context_.metrics.generations_changed(static_cast<int>(count));
  return std::nullopt;
}

void WorkReservation::leave() {
  const std::uint32_t entered = std::exchange(entered_, 0);
  if (entered == 0) return;
  if (replies_ > 0) {
    context_.generations -= replies_;
    context_.metrics.generations_changed(-static_cast<int>(replies_));
  }
  context_.meter.leave(tenant_, entered);
  const std::uint64_t computed = replies_ > 0 ? account_.tokens() : 0;
  context_.meter.pay(tenant_, computed + tokens_of(text_time_), runtime::Clock::now());
}

}  // namespace reprise::protocol
