#include "protocol/http/refusals.h"

namespace reprise::protocol {

ApiError server_busy(std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .code = "server_busy",
          .retry_after = std::chrono::seconds(1)};
}

ApiError too_many_requests(std::uint32_t most) {
  return {.status = 429,
          .message = "the server has reached its limit of requests answered at once (http.max_requests): " +
                     std::to_string(most),
          .code = "too_many_requests",
          .retry_after = std::chrono::seconds(1)};
}

ApiError never_fits(std::uint64_t wanted, std::uint32_t most) {
  return {.message = "n: the request asks for " + std::to_string(wanted) +
                     " replies at once; the server's limit is " + std::to_string(most),
          .code = "too_many",
          .param = "n"};
}

ApiError over_limit(const OverLimit& over, const Tenant& tenant) {
  ApiError error{.status = 429, .message = {}, .code = {}, .retry_after = over.retry_after};
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

ApiError shutting_down() {
  return {.status = 503,
          .message = "the server is shutting down",
          .code = "shutting_down",
          .retry_after = std::chrono::seconds(5)};
}

}  // namespace reprise::protocol
