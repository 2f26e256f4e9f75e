#include "protocol/http/site_guard.h"

#include <algorithm>
#include <string>

#include "protocol/http/cors.h"

namespace reprise::protocol {
namespace {

/// "host:8080", "[::1]:8080" to "host", "[::1]".
std::string_view name_in(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

/// "https://host:8080" to "host:8080".
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

ApiError another_site(std::string message) {
  return {.status = 403, .message = std::move(message), .code = "another_site"};
}

}  // namespace

std::optional<ApiError> site_objection(const HttpRequest& request, const HttpOptions& options) {
  if (!options.keys.empty()) return std::nullopt;
  const std::string_view host = request.header("host");  // HTTP/1.0 needs none, and no browser speaks it
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

std::optional<ApiError> operator_site_objection(const HttpRequest& request, const HttpOptions& options) {
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && !is_own_origin(origin, request.header("host"), options)) {
    return another_site("Origin: pages of other sites may not ask for this");
  }
  if (origin.empty() && request.header("sec-fetch-site") == "cross-site") {
    return another_site("Sec-Fetch-Site: pages of other sites may not ask for this");
  }
  if (!is_json(request.header("content-type"))) {
    return ApiError{
        .status = 415, .message = "Content-Type: must be application/json", .code = "unsupported_media_type"};
  }
  return std::nullopt;
}

}  // namespace reprise::protocol
