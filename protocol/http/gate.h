#pragma once
// Decides whether a request is admitted, and for which tenant, from its head, before its body is read; and
// counts what it asks for against the limits.
//
// Web pages of other sites must not use the server through a visitor's browser. Without keys, every request
// is checked:
// - Host must be an IP address, localhost, the name the server listens on, one of allowed_hosts, or the host
//   of one of cors_origins. This stops DNS rebinding.
// - Origin, if present, must be the server's own (matching Host) or allowed by cors_origins.
// - Sec-Fetch-Site, if there is no Origin, must not be cross-site, unless the browser navigates to a page.
//
// With keys, pages of other sites lack one, so only POSTs to operator routes are checked:
// - Origin must be the server's own or listed in cors_origins; "localhost" and "*" there do not count.
// - Content-Type must be application/json, which no HTML form can send.
//
// Threading: the server's loop.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/http/message.h"
#include "protocol/http/server_context.h"

namespace reprise::protocol {

/// The class of a connection. Reserve connections, opened when all regular ones are busy, serve only health
/// and metrics.
enum class Seat : std::uint8_t { kRegular, kReserve };

/// The gate's decision about a request. It is made once; all code that answers the request reads it.
struct Admission {
  const Route& route;    // owned by the route table
  const Tenant& tenant;  // without keys: the anonymous tenant; without a valid key: one with an empty name
  std::optional<Error> rejection{};  // the error to send; empty: admitted
};
/// `malformed`: the error in the head, if it could not be read.
Admission admission_of(const HttpRequest& request, Seat seat, const ServerContext& context,
                       std::optional<Error> malformed = {});

/// The work of one request, counted against the limits of the server and of its tenant from one of the enter
/// functions until leave() or the destructor, which charges the tenant for it.
class WorkReservation {
 public:
  /// Both must outlive this.
  WorkReservation(ServerContext& context, const Tenant& tenant) : context_(context), tenant_(tenant) {}
  ~WorkReservation() { leave(); }
  WorkReservation(const WorkReservation&) = delete;
  WorkReservation& operator=(const WorkReservation&) = delete;

  /// Returns the error for a further request for text if no reply can be counted, even before its body is
  /// parsed.
  static std::optional<Error> full(const ServerContext& context);
  /// Counts `n` replies to each of the prompts, or returns the limit that they exceed.
  std::optional<Error> enter_replies(std::uint32_t prompts, std::uint32_t n);
  /// Counts text work (tokenizing, rendering), for which only the tenant's limits hold.
  std::optional<Error> enter_text();
  /// Later calls do nothing.
  void leave();

  std::uint32_t replies() const { return replies_; }
  TokenAccount& account() { return account_; }  // of the replies
  const TextTime& text_time() const { return text_time_; }
  TextCaller caller() const { return {tenant_.name, text_time_}; }

 private:
  std::optional<Error> enter(std::uint32_t requests);

  ServerContext& context_;
  const Tenant& tenant_;
  std::uint32_t entered_ = 0;  // requests counted for the tenant; 0: none
  std::uint32_t replies_ = 0;  // replies counted in the context
  TokenAccount account_{};
  const TextTime text_time_ = std::make_shared<std::atomic<std::uint64_t>>(0);  // summed over all prompts
};

// -- cross-origin requests (CORS): which other origins' pages may read the responses

/// Returns the CORS headers for the response to this request; empty if its origin is not allowed.
Headers cors_headers(const HttpRequest& request, const std::vector<std::string>& allowed_origins);

bool is_preflight(const HttpRequest& request);
/// Returns the answer to a preflight; cors_headers() adds the headers for its origin.
HttpResponse preflight_response(const HttpRequest& request, const std::string& allowed_methods);

}  // namespace reprise::protocol
